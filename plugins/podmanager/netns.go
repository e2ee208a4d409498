package podmanager

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/contiv/contiv/nsfile"
	"golang.org/x/sys/unix"
)

// Namespaces returns a text that identifies the network namespace at a path for
// as long as the machine runs. A path that leads to no network namespace is an error:
// one of nsfile, or that a resource is lacking.
type Namespaces func(path string) (id string, err error)

// KernelNamespaces are those of the machine. The ID consists of the boot ID and
// the inode of the namespace, so that neither another namespace at the path nor
// one after a reboot is taken for the same.
func KernelNamespaces(path string) (string, error) {
	file, err := nsfile.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	ns, err := nsfile.Identify(file)
	if err != nil {
		return "", err
	}
	boot, err := bootID()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%d", boot, ns.Ino), nil
}

// boot is the boot ID of the machine; nil: not yet read.
var boot atomic.Pointer[string]

// bootID reads the boot ID once, as it lasts longer than the process.
func bootID() (string, error) {
	if id := boot.Load(); id != nil {
		return *id, nil
	}
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot ID of the machine: %w", err)
	}
	id := strings.TrimSpace(string(text))
	boot.Store(&id)
	return id, nil
}

// mayExist reports whether the namespace that a pod was in may still exist, although err
// is why its path cannot be followed: the machine lacks something.
func mayExist(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}
