package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const ProcNet = "/proc/sys/net/"

// ReadSysctl returns "" for what does not exist.
func ReadSysctl(name string) string {
	data, err := os.ReadFile(ProcNet + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func EnsureSysctl(name, value string) error {
	if ReadSysctl(name) == value {
		return nil
	}
	err := os.WriteFile(ProcNet+name, []byte(value), 0o644)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return fmt.Errorf("setting net/%s to %s: %w: run as root with a writable /proc/sys, or set it on the host", name, value, err)
	}
	if err != nil {
		return fmt.Errorf("setting net/%s to %s: %w", name, value, err)
	}
	return nil
}

// SetSysctl is EnsureSysctl for what is hardly ever so already, and does nothing where there
// is no such sysctl. Each time one is opened, the kernel looks for it among those of all network
// namespaces: with hundreds of pods, that takes a tenth of a millisecond.
func SetSysctl(name, value string) error {
	// Not by os.OpenFile, which makes further calls to have the file polled.
	fd, err := unix.Open(ProcNet+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = unix.Write(fd, []byte(value))
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return EnsureSysctl(name, value)
	}
	return nil
}

var errReadOnly = unix.EROFS
