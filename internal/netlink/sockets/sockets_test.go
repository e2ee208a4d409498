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

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Both ends of the connection get errors. The listener, other connections, and one with the same
// addresses and ports in another namespace stay.
func TestDestroy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	if err := Supported(); err != nil {
		t.Skipf("%v: run the test on a distribution kernel", err)
	}
	for name, c := range map[string]struct {
		addr             string
		mapped, ofServer bool
	}{
		"IPv4":                           {addr: "127.0.0.1:8080"},
		"IPv6":                           {addr: "[::1]:8080"},
		"IPv4 by a socket of IPv6":       {addr: "127.0.0.1:8080", mapped: true},
		"IPv4, the socket of the server": {addr: "127.0.0.1:8080", ofServer: true},
	} {
		t.Run(name, func(t *testing.T) {
			addr := netip.MustParseAddrPort(c.addr)
			here, elsewhere := newSite(t, addr, c.mapped), newSite(t, addr, c.mapped)
			victim, server := here.connect(t, 1000)
			other, otherServer := here.connect(t, 1001)
			twin, twinServer := elsewhere.connect(t, 1000)
			end := Connection{Local: netip.AddrPortFrom(addr.Addr(), 1000), Remote: addr}
			if ended, err := Destroy(here.ns, map[Connection]bool{{Local: end.Local, Remote: netip.AddrPortFrom(addr.Addr(), 1)}: true, {Local: addr}: true}); err != nil || len(ended) > 0 {
				t.Fatalf("others: ended %v (%v)", ended, err)
			}
			if c.ofServer {
				end.Local, end.Remote, victim, server = end.Remote, end.Local, server, victim
			}
			if ended, err := Destroy(here.ns, map[Connection]bool{end: false}); err != nil || len(ended) != 1 || ended[0] != end {
				t.Fatalf("ended %v (%v), want %v", ended, err, end)
			}
			for _, side := range []struct {
				who  string
				conn net.Conn
				want error
			}{{"the owner of the socket", victim, syscall.ECONNABORTED}, {"the other end", server, syscall.ECONNRESET}} {
				if _, err := side.conn.Read(make([]byte, 1)); !errors.Is(err, side.want) {
					t.Errorf("%s got %v, want %v", side.who, err, side.want)
				}
			}
			if ended, err := Destroy(here.ns, map[Connection]bool{end: true}); err != nil || len(ended) > 0 {
				t.Errorf("once more: ended %v (%v)", ended, err)
			}
			requireOpen(t, "another connection", other, otherServer)
			requireOpen(t, "the same in another namespace", twin, twinServer)
			here.connect(t, 1002) // the listener is still running
		})
	}
}

// A connection being opened ends only on request.
func TestDestroyConnectionBeingOpened(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	if err := Supported(); err != nil {
		t.Skipf("%v: run the test on a distribution kernel", err)
	}
	nobody := Connection{Local: netip.MustParseAddrPort("127.0.0.1:1000"), Remote: netip.MustParseAddrPort("192.0.2.1:80")}
	s := newSite(t, netip.MustParseAddrPort("127.0.0.1:8080"), false)
	err := namespace.In(s.ns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4(192, 0, 2, 0), Mask: net.CIDRMask(24, 32)}, Scope: netlink.SCOPE_LINK})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = namespace.In(s.ns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		err = errors.Join(unix.Bind(fd, sockaddr(nobody.Local, false)), unix.Connect(fd, sockaddr(nobody.Remote, false)))
		if errors.Is(err, unix.EINPROGRESS) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, early := range []bool{false, true} {
		if ended, err := Destroy(s.ns, map[Connection]bool{nobody: early}); err != nil || (len(ended) == 1) != early {
			t.Errorf("asked for %v: ended %v (%v)", early, ended, err)
		}
	}
}

// site is a network namespace with a server.
type site struct {
	ns     netns.NsHandle
	addr   netip.AddrPort
	mapped bool
	server net.Listener
}

func newSite(t *testing.T, addr netip.AddrPort, mapped bool) *site {
	t.Helper()
	s := &site{addr: addr, mapped: mapped}
	err := namespace.InNew(func() (err error) {
		if s.ns, err = netns.Get(); err != nil {
			return err
		}
		t.Cleanup(func() { s.ns.Close() })
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		s.server, err = net.Listen("tcp", addr.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Close() })
	return s
}

// connect connects to the server from a port, with an IPv6 socket if mapped, and returns both ends.
func (s *site) connect(t *testing.T, port uint16) (client, server net.Conn) {
	t.Helper()
	err := namespace.In(s.ns, func() error {
		family := unix.AF_INET
		if s.mapped || s.addr.Addr().Is6() {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), "client")
		defer file.Close()
		if err := errors.Join(unix.Bind(fd, sockaddr(netip.AddrPortFrom(s.addr.Addr(), port), s.mapped)), unix.Connect(fd, sockaddr(s.addr, s.mapped))); err != nil {
			return err
		}
		client, err = net.FileConn(file)
		return err
	})
	if err == nil {
		server, err = s.server.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{client, server} {
		c.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { c.Close() })
	}
	return client, server
}

func sockaddr(a netip.AddrPort, mapped bool) unix.Sockaddr {
	if mapped || a.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

func requireOpen(t *testing.T, what string, client, server net.Conn) {
	t.Helper()
	if _, err := client.Write([]byte{1}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
