// Package namespace opens a network namespace: for sockets, and for functions that
// read and write what /proc shows of it.
package namespace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
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
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, and no
		// other goroutine finds itself in a foreign namespace.
		runtime.LockOSThread()
		if err := netns.Set(n.Handle); err != nil {
			done <- fmt.Errorf("entering the network namespace: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}
