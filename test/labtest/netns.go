package labtest

import (
	"runtime"

	"github.com/vishvananda/netns"
)

// Inside calls fn on a thread in a network namespace: sockets made there stay there.
func Inside(name string, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromName(name)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}
