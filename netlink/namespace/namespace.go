// Package namespace opens a network namespace: for sockets, and for functions that
// read and write what /proc shows of it.
package namespace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is the network namespace that the driver works in.
type Namespace struct {
	Handle netns.NsHandle
	// own: it is the namespace of the process.
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

// Run calls fn in the namespace: what it reads under /proc/sys/net and the
// processes that it starts are those of the namespace.
func (n *Namespace) Run(fn func() error) error {
	if n.own {
		return fn()
	}
	return In(n.Handle, fn)
}

// In calls fn on a thread that is in the namespace.
func In(handle netns.NsHandle, fn func() error) error {
	return away(func() error {
		if err := netns.Set(handle); err != nil {
			return fmt.Errorf("entering the network namespace: %w", err)
		}
		return nil
	}, fn)
}

// InNew calls fn on a thread that is in a namespace of its own. That ends with the call, unless fn
// makes something that keeps it.
func InNew(fn func() error) error {
	return away(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		return nil
	}, fn)
}

// away calls leave and fn on a thread that goes back to where it was: the first thread of the process does
// not end with its goroutine, and where it is, the process is to others, and to itself. Any
// other thread that cannot be brought back ends, so that no other goroutine gets it.
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
