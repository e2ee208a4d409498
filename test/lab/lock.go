package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is released by the kernel when its holder dies.
type fileLock struct{ file *os.File }

// acquire waits for the lock until ctx ends. If the lock is held, it calls waiting once with the
// process number of the holder.
func acquire(ctx context.Context, path string, waiting func(pid string)) (*fileLock, error) {
	told := false
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking the lab: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isFileAt(f, path) {
			l := &fileLock{file: f}
			l.sign()
			return l, nil
		}
		holder := make([]byte, 16)
		n, _ := f.ReadAt(holder, 0)
		f.Close()
		if err == nil {
			continue // the last holder removed the file; the path now names another file
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the lab: %w", err)
		}
		pid := strings.TrimSpace(string(holder[:n]))
		if !told {
			told = true
			waiting(pid)
		}
		// flock has no notification, so poll.
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another command, process %s, works on the lab (lock %s): %w", pid, path, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (l *fileLock) sign() {
	l.file.Truncate(0)
	l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
}

func (l *fileLock) release() { l.file.Close() }

// remove deletes the file while holding the lock, so that no file remains after the release.
func (l *fileLock) remove() { os.Remove(l.file.Name()) }

func isFileAt(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}
