package vswitchtest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// One-to-one SCTP sockets. Package net does not support SCTP, but accepts such sockets as TCP.

// answerSCTP is answerAll for SCTP. It skips the test if the kernel does not support SCTP.
func (h *Host) answerSCTP(t testing.TB, name string) {
	t.Helper()
	var l net.Listener
	err := h.in(func() error {
		return withSCTP(func(socket int, f *os.File) (err error) {
			err = errors.Join(unix.Bind(socket, &unix.SockaddrInet4{Port: servicePort}), unix.Listen(socket, 8))
			if err == nil {
				l, err = net.FileListener(f)
			}
			return err
		})
	})
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
		t.Skip("this kernel has no SCTP")
	}
	if err != nil {
		t.Fatal(err)
	}
	answerStreams(t, l, name)
}

func (h *Host) connect(network, addr string, port int, wait time.Duration) (c net.Conn, err error) {
	if network != "sctp" {
		return h.dial(network, addr, port, wait)
	}
	err = h.in(func() error {
		return withSCTP(func(socket int, f *os.File) (err error) {
			limit := unix.NsecToTimeval(wait.Nanoseconds())
			to := &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(addr).As4()}
			if err = errors.Join(unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit), unix.Connect(socket, to)); err == nil {
				c, err = net.FileConn(f)
			}
			return err
		})
	})
	return c, err
}

// withSCTP calls do with a new socket and closes it. A connection that do makes from f is a
// duplicate.
func withSCTP(do func(socket int, f *os.File) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(socket), "SCTP")
	defer f.Close()
	return do(socket, f)
}

func (h *Host) wantSCTP(t testing.TB, addr string, port int, who, seen string) {
	t.Helper()
	c, err := h.connect("sctp", addr, port, longWait)
	if err != nil {
		t.Errorf("SCTP %s:%d: %v", addr, port, err)
		return
	}
	defer c.Close()
	if gotWho, gotSeen, err := (caller{c}).ask(longWait); err != nil || gotWho != who || gotSeen != seen {
		t.Errorf("SCTP %s:%d is %q, which sees %q (%v); want %q to see %q", addr, port, gotWho, gotSeen, err, who, seen)
	}
}
