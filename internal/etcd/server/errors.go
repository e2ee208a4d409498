package server

import "errors"

var (
	// ErrAddressTaken is wrapped if another process listens on a URL.
	ErrAddressTaken = errors.New("address is in use by another process")
	// ErrDirInUse is wrapped if another process serves the data directory.
	ErrDirInUse = errors.New("data directory is used by another process")
	// ErrDirNotWritable is wrapped if the data directory cannot be created or written.
	ErrDirNotWritable = errors.New("data directory is not writable")
	// ErrBadSnapshot is wrapped if a file is not a snapshot or is incomplete.
	ErrBadSnapshot = errors.New("damaged snapshot")
	// ErrNotServed is wrapped if no contiv-etcd serves the data directory.
	ErrNotServed = errors.New("no contiv-etcd serves the data directory")
)
