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

var errReadOnly = unix.EROFS
