package sockets

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A connection ends at both sides; the listener, others of the same client, and one with the same ports in another namespace do not.
func TestDestroy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct {
		addr string
		dial func(net.Listener, int) (net.Conn, error)
	}{
		"IPv4":                           {"127.0.0.1:8080", dial},
		"IPv6":                           {"[::1]:8080", dial},
		"IPv4 by a socket of both":       {"127.0.0.1:8080", dialMapped},
		"IPv4, the socket of the server": {"127.0.0.1:8080", nil},
	} {
		t.Run(name, func(t *testing.T) {
			type side struct{ client, server net.Conn }
			var sides []side
			var l net.Listener
			fresh(t, func(ns netns.NsHandle) {
				var err error
				if l, err = net.Listen("tcp", c.addr); err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				open := c.dial
				if open == nil {
					open = dial
				}
				for port := range 2 {
					client, err := open(l, 1000+port)
					if err != nil {
						t.Fatal(err)
					}
					defer client.Close()
					server, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					defer server.Close()
					sides = append(sides, side{client, server})
				}
				victim := Connection{Local: addrPort(sides[0].server.RemoteAddr()), Remote: addrPort(sides[0].server.LocalAddr())}
				ended, err := Destroy(ns, map[Connection]bool{{Local: victim.Local, Remote: netip.MustParseAddrPort(c.addr)}: false, {Local: victim.Remote}: true})
				if err != nil || len(ended) > 0 {
					t.Fatalf("others: ended %v (%v)", ended, err)
				}
				if c.dial == nil {
					victim.Local, victim.Remote = victim.Remote, victim.Local
				}
				ended, err = Destroy(ns, map[Connection]bool{victim: true})
				if err != nil || len(ended) != 1 || ended[0] != victim {
					t.Fatalf("ended %v (%v), want %v", ended, err, victim)
				}
				own, other, want := sides[0].client, sides[0].server, error(syscall.ECONNABORTED)
				if c.dial == nil {
					own, other = other, own
				}
				for _, end := range []struct {
					who  string
					conn net.Conn
					want error
				}{{"whoever has the socket", own, want}, {"the other end", other, syscall.ECONNRESET}} {
					end.conn.SetDeadline(time.Now().Add(5 * time.Second))
					if _, err := end.conn.Read(make([]byte, 1)); !errors.Is(err, end.want) {
						t.Errorf("%s is told %v, want %v", end.who, err, end.want)
					}
				}
				if again, err := Destroy(ns, map[Connection]bool{victim: true}); err != nil || len(again) > 0 {
					t.Errorf("once more: ended %v (%v)", again, err)
				}
				if _, err := sides[1].client.Write([]byte{1}); err != nil {
					t.Error(err)
				}
				if _, err := io.ReadFull(sides[1].server, make([]byte, 1)); err != nil {
					t.Errorf("another connection: %v", err)
				}
				if another, err := open(l, 1002); err != nil {
					t.Errorf("the listener: %v", err)
				} else {
					another.Close()
				}
			})
		})
	}
}

// fresh calls fn in a new network namespace whose loopback is up.
func fresh(t *testing.T, fn func(netns.NsHandle)) {
	t.Helper()
	err := namespace.InNew(func() error {
		ns, err := netns.Get()
		if err != nil {
			return err
		}
		defer ns.Close()
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			fn(ns)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	to := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
}

// dial connects to a listener from a port.
func dial(l net.Listener, port int) (net.Conn, error) {
	return connect(l, port, false)
}

// dialMapped does so by a socket of IPv6, as programs do that know no other.
func dialMapped(l net.Listener, port int) (net.Conn, error) {
	return connect(l, port, true)
}

// connect uses system calls: the threads of Go's dialler are in other namespaces.
func connect(l net.Listener, port int, mapped bool) (net.Conn, error) {
	to := addrPort(l.Addr())
	family, address := unix.AF_INET, func(a netip.AddrPort) unix.Sockaddr {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	if mapped || to.Addr().Is6() {
		family, address = unix.AF_INET6, func(a netip.AddrPort) unix.Sockaddr {
			return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
		}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "client")
	defer f.Close()
	if err := errors.Join(unix.Bind(fd, address(netip.AddrPortFrom(to.Addr(), uint16(port)))), unix.Connect(fd, address(to))); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
