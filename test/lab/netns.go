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

// netnsDir is where ip-netns(8) and runtimes keep named network namespaces.
const netnsDir = "/var/run/netns"

// NetnsPath is the path of the network namespace with the name.
func NetnsPath(name string) string { return filepath.Join(netnsDir, name) }

// checkUnused returns an error if a network namespace of that name exists, which
// must be somebody else's.
func checkUnused(name string) error {
	if _, err := os.Lstat(NetnsPath(name)); err == nil {
		return fmt.Errorf("network namespace %s exists already and is not this lab's; choose another name, or remove it with: ip netns del %s", name, name)
	}
	return nil
}

// deleteNetns removes the name, and with it the namespace when no process or
// socket is left in it. A missing one is no error.
func deleteNetns(name string) error {
	path := NetnsPath(name)
	for {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // not mounted, or no longer
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

// InNetns runs fn in the network namespace with the path. Sockets that fn makes
// and processes that it starts stay there; goroutines that it starts do not.
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
		// A thread that cannot return dies with this goroutine instead of being unlocked.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return fn()
}

// netnsProcesses returns the processes, other than this one, that are in any of
// the named network namespaces.
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
		// Was it this process, and not a later one with its number, that was looked at?
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
