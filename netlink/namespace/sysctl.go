package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// ForwardIPv6 makes the namespace of the thread a router of IPv6, unless the kernel has no IPv6. A router ignores router
// advertisements, unless told otherwise: devices that accept them now have their
// addresses and default routes from there, and go on accepting them.
func ForwardIPv6() error {
	const forwarding = "ipv6/conf/all/forwarding"
	if current := ReadSysctl(forwarding); current == "" || current == "1" {
		return nil
	}
	devices, err := filepath.Glob(ProcNet + "ipv6/conf/*/accept_ra")
	if err != nil {
		return err
	}
	for _, path := range devices {
		name := strings.TrimPrefix(path, ProcNet)
		if dev := filepath.Base(filepath.Dir(path)); dev == "all" || dev == "default" || dev == "lo" {
			continue
		}
		if ReadSysctl(name) == "1" {
			if err := EnsureSysctl(name, "2"); err != nil {
				return err
			}
		}
	}
	return EnsureSysctl(forwarding, "1")
}
