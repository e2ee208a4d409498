package podmanager

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespaces returns a text that identifies the network namespace at a path for
// as long as the machine runs. A path that leads to no namespace is an error.
type Namespaces func(path string) (id string, err error)

// KernelNamespaces are those of the machine. The ID consists of the boot ID and
// the inode of the namespace, so that neither another namespace at the path nor
// one after a reboot is taken for the same.
func KernelNamespaces(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return "", fmt.Errorf("network namespace %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return "", fmt.Errorf("%s is no network namespace: a file is left, but nothing is mounted there", path)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "", fmt.Errorf("network namespace %s: %w", path, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot ID of the machine: %w", err)
	}
	return fmt.Sprintf("%s/%d", strings.TrimSpace(string(boot)), stat.Ino), nil
}
