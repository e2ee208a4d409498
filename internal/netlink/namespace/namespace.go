// Package namespace opens network namespaces for sockets, and runs functions in them.
package namespace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

type Namespace struct {
	Handle netns.NsHandle
	// own: it is the namespace of the process
	own bool
}

func Open(path string) (*Namespace, error) {
	if path == "" {
		handle, err := netns.GetFromPath("/proc/self/ns/net")
		if err != nil {
			return nil, fmt.Errorf("opening the network namespace of the process: %w", err)
		}
		return &Namespace{Handle: handle, own: true}, nil
	}
	handle, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	return &Namespace{Handle: handle}, nil
}

func (n *Namespace) Close() { n.Handle.Close() }

// Run calls fn in the namespace. /proc/sys/net and processes that fn starts belong to it.
func (n *Namespace) Run(fn func() error) error {
	if n.own {
		return fn()
	}
	return In(n.Handle, fn)
}

// In calls fn on a thread in the namespace.
func In(handle netns.NsHandle, fn func() error) error {
	return away(func() error {
		if err := netns.Set(handle); err != nil {
			return fmt.Errorf("entering the network namespace: %w", err)
		}
		return nil
	}, fn)
}

// InNew calls fn on a thread in a new namespace, which ends with the call unless fn keeps a
// reference.
func InNew(fn func() error) error {
	return away(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		return nil
	}, fn)
}

// away calls leave and fn on a locked thread and then restores its namespace. The first thread of a
// process does not end with its goroutine, and its namespace is that of the process. Any other
// thread that cannot be restored ends.
func away(leave, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("opening the network namespace of the thread: %w", err)
			return
		}
		defer home.Close()
		if err = leave(); err == nil {
			err = fn()
		}
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
