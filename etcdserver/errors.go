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
)
