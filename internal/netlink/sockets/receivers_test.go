package sockets

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Receivers include the kernel's own sockets, but not connections and their clients.
func TestReceivers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	site := newSite(t, netip.MustParseAddrPort("127.0.0.1:8080"), false)
	site.connect(t, 1000)
	err := namespace.In(site.ns, func() error {
		v6Only := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1) })
		}}
		for _, open := range []func() (any, error){
			func() (any, error) { return net.Listen("tcp", ":22") },
			func() (any, error) { return v6Only.Listen(context.Background(), "tcp6", "[::]:23") },
			func() (any, error) { return net.ListenPacket("udp4", "127.0.0.1:53") },
			func() (any, error) { return net.Dial("udp4", "127.0.0.1:53") },
		} {
			socket, err := open()
			if err != nil {
				return err
			}
			if c, is := socket.(interface{ Close() error }); is {
				t.Cleanup(func() { c.Close() })
			}
		}
		handle, err := netlink.NewHandleAt(netns.NsHandle(site.ns))
		if err != nil {
			return err
		}
		defer handle.Close()
		return handle.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx", Flags: net.FlagUp}, VxlanId: 10, Port: 4789})
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Receivers(site.ns)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		name := map[byte]string{unix.IPPROTO_TCP: "tcp ", unix.IPPROTO_UDP: "udp "}[r.Protocol]
		got = append(got, name+r.Local.String())
	}
	slices.Sort(got)
	want := []string{"tcp 0.0.0.0:22", "tcp 127.0.0.1:8080", "tcp [::]:22", "tcp [::]:23", "udp 0.0.0.0:4789", "udp 127.0.0.1:53"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
