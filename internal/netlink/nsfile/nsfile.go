// Package nsfile opens files of network namespaces, and no others.
//
// Paths of namespaces come from outside: etcd, gRPC, a directory, a container runtime. Opening a
// path must neither block, as a FIFO without a writer does, nor have side effects, as a device may.
// So the file is located first without opening it:
//
//	path ──O_PATH──> fstatfs: NSFS_MAGIC? ──reopen──> NS_GET_NSTYPE: CLONE_NEWNET?
package nsfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrNone means that the path does not exist, or is the ordinary file that a deleted named
	// namespace leaves behind.
	ErrNone = errors.New("network namespace does not exist")
	// ErrOther means that the path can never be a network namespace.
	ErrOther = errors.New("not a network namespace")
)

// ID identifies a network namespace while it exists.
type ID struct{ Dev, Ino uint64 }

// Open opens the network namespace at a path without blocking. The error is ErrNone, ErrOther, or a
// lack of resources.
func Open(path string) (*os.File, error) {
	file, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", shown(path), err)
	}
	return file, nil
}

func open(path string) (*os.File, error) {
	found, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOTDIR):
		return nil, ErrNone
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EINVAL):
		return nil, fmt.Errorf("%w: %w", ErrOther, err)
	case err != nil:
		return nil, err
	}
	defer unix.Close(found)
	if err := check(found); err != nil {
		return nil, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", found), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err == nil && kind != unix.CLONE_NEWNET {
		err = fmt.Errorf("%w: it is a namespace of another kind", ErrOther)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// check checks that a located file is a namespace, without opening it.
func check(found int) error {
	var in unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(found, &in), unix.Fstat(found, &st)); err != nil {
		return err
	}
	switch {
	case in.Type == unix.NSFS_MAGIC:
		return nil
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return fmt.Errorf("%w: a file is left, but nothing is mounted there", ErrNone)
	}
	return fmt.Errorf("%w: it is a %s", ErrOther, kindOf(st.Mode))
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// Identify returns the ID of an open namespace.
func Identify(file *os.File) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return ID{}, fmt.Errorf("network namespace %s: %w", shown(file.Name()), err)
	}
	return ID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// Stat returns the ID of any file without opening it. It equals the ID of an open namespace if the
// file is that namespace.
func Stat(path string) (ID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return ID{}, fmt.Errorf("%s: %w", shown(path), err)
	}
	return ID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// shown quotes and shortens a path for error messages.
func shown(path string) string {
	const most = 128
	if len(path) > most {
		return fmt.Sprintf("%q… (%d bytes)", path[:most], len(path))
	}
	return fmt.Sprintf("%q", path)
}
