package labtest

import (
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
)

// Inside calls fn on a thread in a network namespace. Sockets created by fn stay in the namespace.
func Inside(name string, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
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

// Echo serves an echo at a TCP address in a network namespace until the test ends. It returns the
// address. Port 0 selects a free port.
func Echo(t testing.TB, name, address string) string {
	t.Helper()
	var l net.Listener
	err := Inside(name, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}
