package podmanager

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/contiv/contiv/internal/netlink/nsfile"
	"golang.org/x/sys/unix"
)

// Namespaces returns an ID of the network namespace at a path, unique until the machine reboots. It
// returns an error of nsfile if the path is not a network namespace, or the error of a lack of
// resources.
type Namespaces func(path string) (id string, err error)

// KernelNamespaces implements Namespaces. The ID consists of the boot ID and the namespace's inode,
// so that it differs for another namespace at the path and after a reboot.
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

var boot atomic.Pointer[string]

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

// mayExist reports whether a namespace may exist although its path failed with err, because the
// agent lacks resources or permissions.
func mayExist(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}
