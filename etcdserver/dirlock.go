package etcdserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dirLock is a lock on a data directory. etcd has one of its own, on which it
// would wait without end and without a word.
type dirLock struct{ file *os.File }

// lockDir makes the directory if it is missing, and locks it. The kernel frees
// the lock when the process dies.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "contiv-etcd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, dirError(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s: stop that process or give another directory", ErrDirInUse, dir)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return &dirLock{file: f}, nil
}

func dirError(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w: give a directory on a writable file system", ErrDirNotWritable, dir, err)
}

func (l *dirLock) release() { l.file.Close() }
