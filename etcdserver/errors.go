package etcdserver

import "errors"

var (
	// ErrAddressTaken is wrapped when another process listens on a URL.
	ErrAddressTaken = errors.New("address is taken by another process")
	// ErrDirInUse is wrapped when another process serves the data directory.
	ErrDirInUse = errors.New("data directory is used by another process")
	// ErrDirNotWritable is wrapped when the data directory cannot be made or
	// written.
	ErrDirNotWritable = errors.New("data directory is not writable")
	// ErrBadSnapshot is wrapped when a file is no snapshot, or not all of one.
	ErrBadSnapshot = errors.New("not an intact snapshot")
	// ErrNotServed is wrapped when no contiv-etcd serves a data directory.
	ErrNotServed = errors.New("no contiv-etcd serves the data directory")
)
