package labtest

import (
	"io"
	"net"
	"runtime"
	"testing"

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

// Echo sends back what it receives at a TCP address of a network namespace, until the test
// ends. It returns the address, with the port that was chosen if that is 0.
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
