package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dirLock locks a data directory. etcd's own lock would wait silently without a timeout.
type dirLock struct{ file *os.File }

// lockDir creates the directory if necessary and locks it until the process ends.
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
			return nil, fmt.Errorf("%w: %s: stop that process or use another directory", ErrDirInUse, dir)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return &dirLock{file: f}, nil
}

func dirError(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w: use a directory on a writable file system", ErrDirNotWritable, dir, err)
}

func (l *dirLock) release() { l.file.Close() }
