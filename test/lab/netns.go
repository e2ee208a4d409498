package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const netnsDir = "/var/run/netns"

// NetnsPath returns the path of a named network namespace.
func NetnsPath(name string) string { return filepath.Join(netnsDir, name) }

func checkUnused(name string) error {
	if _, err := os.Lstat(NetnsPath(name)); err == nil {
		return fmt.Errorf("network namespace %s exists already and is not this lab's; choose another name, or remove it with: ip netns del %s", name, name)
	}
	return nil
}

// deleteNetns removes the name; the kernel removes the namespace after its last process and socket.
// It returns nil if the name does not exist.
func deleteNetns(name string) error {
	path := NetnsPath(name)
	for {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // not mounted
		}
		if err != nil {
			return fmt.Errorf("removing network namespace %s: %w", name, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing network namespace %s: %w", name, err)
	}
	return nil
}

// InNetns runs fn in the network namespace at path. Sockets and processes that fn creates stay in
// that namespace; goroutines do not.
func InNetns(path string, fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- inNetns(path, fn) }()
	return <-done
}

func inNetns(path string, fn func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening the own network namespace: %w", err)
	}
	defer home.Close()
	target, err := netns.GetFromPath(path)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	defer target.Close()
	if err := netns.Set(target); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering network namespace %s: %w", path, err)
	}
	defer func() {
		// A thread that cannot return stays locked and dies with its goroutine.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return fn()
}

// netnsProcesses returns the processes in the named network namespaces, except the current one.
func netnsProcesses(names []string) []Process {
	inside := map[netnsID]bool{}
	for _, name := range names {
		if id, ok := statNetns(NetnsPath(name)); ok {
			inside[id] = true
		}
	}
	var found []Process
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, ok := processOf(pid)
		if id, known := statNetns(filepath.Join("/proc", e.Name(), "ns/net")); !ok || !known || !inside[id] {
			continue
		}
		// Check that the process number was not reused during the scan.
		if p.Alive() {
			found = append(found, p)
		}
	}
	return found
}

type netnsID struct{ dev, ino uint64 }

func statNetns(path string) (netnsID, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return netnsID{}, false
	}
	return netnsID{st.Dev, st.Ino}, true
}
