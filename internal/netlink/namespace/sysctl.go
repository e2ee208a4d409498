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

// ReadSysctl returns "" for a missing sysctl.
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

// SetSysctl is EnsureSysctl without the read. It ignores missing sysctls. Opening a sysctl is slow:
// with hundreds of network namespaces, the kernel needs 0.1 ms to find it.
func SetSysctl(name, value string) error {
	// os.OpenFile would make further calls to poll the file.
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

// ForwardIPv6 enables IPv6 forwarding in the namespace of the thread if the kernel has IPv6. A
// router ignores router advertisements by default. Devices that accept them now, and may have their
// addresses and default routes from them, keep accepting them.
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
