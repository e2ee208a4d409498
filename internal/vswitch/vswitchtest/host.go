package vswitchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/command"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Host is a network namespace that sends and receives packets.
type Host struct{ NetNS string }

// Exec runs a command in the namespace and fails the test if the command fails.
func (h *Host) Exec(t testing.TB, command string) string {
	t.Helper()
	out, err := h.Try(command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return out
}

// Try runs a command in the namespace.
func (h *Host) Try(line string) (string, error) {
	return command.Output("nsenter", append([]string{"--net=" + h.NetNS, "--"}, strings.Fields(line)...)...)
}

// Ping sends packets of the given size until one is answered or wait has passed.
func (h *Host) Ping(dst string, size int, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; {
		_, err := h.Try(fmt.Sprintf("ping -n -q -M do -c 1 -i 0.1 -s %d -w %d %s", size, max(int(time.Until(deadline).Seconds()), 1), dst))
		if err == nil || !time.Now().Before(deadline) { // ping exits at the first ICMP error, such as an unknown neighbour
			return err
		}
	}
}

func (h *Host) in(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromPath(h.NetNS)
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}

func (h *Host) wire(t testing.TB, device string) (w *frames.Wire) {
	t.Helper()
	err := h.in(func() (err error) {
		w, err = frames.NewWire(device)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// served holds the ports of all servers. Each namespace could reuse ports, but an answer must
// identify its host.
var served sync.Map

// Serve answers TCP connections with the peer's address. It returns the port, which is unique among
// all hosts.
func (h *Host) Serve(t testing.TB, addr string) int {
	t.Helper()
	l := h.listen(t, addr)
	for {
		if _, taken := served.LoadOrStore(l.Addr().(*net.TCPAddr).Port, nil); !taken {
			break
		}
		another := h.listen(t, addr) // keep the duplicate open while choosing another port
		l.Close()
		l = another
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			peer, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = io.WriteString(c, peer)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

func (h *Host) listen(t testing.TB, addr string) (l net.Listener) {
	t.Helper()
	err := h.in(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(addr, "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ask connects to a server and returns the client address that the server saw.
func (h *Host) Ask(addr string, port int) (seen string, err error) { return h.AskFrom("", addr, port) }

// AskFrom is Ask with a socket bound to a device, unless device is "".
func (h *Host) AskFrom(device, addr string, port int) (seen string, err error) {
	err = h.in(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		c, err := (&net.Dialer{Control: bindTo(device)}).DialContext(ctx, "tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
		if err != nil {
			return err
		}
		defer c.Close()
		data, err := io.ReadAll(c)
		if len(data) == 0 && err == nil {
			err = errors.New("closed without an answer")
		}
		seen = string(data)
		return err
	})
	return seen, err
}

func bindTo(device string) func(network, addr string, c syscall.RawConn) error {
	if device == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) (err error) {
		if controlErr := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }); controlErr != nil {
			return controlErr
		}
		return err
	}
}
