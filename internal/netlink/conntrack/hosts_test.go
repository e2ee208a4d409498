package conntrack

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func namespaceOfTest(t testing.TB) (netns.NsHandle, *netlink.Handle) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for a network namespace: run the test as root")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	if err := netns.Set(before); err != nil {
		t.Fatal(err)
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return ns, h
}

// track adds a UDP connection from port 5000 to port 53 that is translated to another host.
func track(t testing.TB, h *netlink.Handle, from, to, answerer string) {
	t.Helper()
	ip := func(text string) net.IP { return netip.MustParseAddr(text).AsSlice() }
	family := netlink.InetFamily(unix.AF_INET)
	if netip.MustParseAddr(from).Is6() {
		family = unix.AF_INET6
	}
	if err := h.ConntrackCreate(netlink.ConntrackTable, family, &netlink.ConntrackFlow{
		FamilyType: uint8(family), TimeOut: 600,
		Forward: netlink.IPTuple{SrcIP: ip(from), DstIP: ip(to), SrcPort: 5000, DstPort: 53, Protocol: unix.IPPROTO_UDP},
		Reverse: netlink.IPTuple{SrcIP: ip(answerer), DstIP: ip(from), SrcPort: 53, DstPort: 5000, Protocol: unix.IPPROTO_UDP},
	}); err != nil {
		t.Fatal(err)
	}
}

func TestConnectionsOfHostsAreForgotten(t *testing.T) {
	hosts := []netip.Addr{netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("fd10::2")}
	for n := range byte(4) {
		hosts = append(hosts, netip.AddrFrom4([4]byte{10, 1, 2, n}))
	}
	for name, hosts := range map[string][]netip.Addr{"few": hosts[:2], "many": hosts} {
		t.Run(name, func(t *testing.T) {
			ns, h := namespaceOfTest(t)
			for _, c := range [][3]string{
				{"10.1.1.2", "10.1.1.3", "10.1.1.3"}, {"10.1.1.4", "10.1.1.2", "10.1.1.2"}, {"10.1.1.5", "10.96.0.10", "10.1.1.2"}, {"10.1.1.4", "10.1.1.3", "10.1.1.3"},
				{"fd10::2", "fd10::3", "fd10::3"}, {"fd10::4", "fd96::10", "fd10::2"}, {"fd10::4", "fd10::3", "fd10::3"},
			} {
				track(t, h, c[0], c[1], c[2])
			}
			if err := Hosts(hosts).Forget(ns); err != nil {
				t.Fatal(err)
			}
			left := map[string]bool{}
			for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
				list, err := h.ConntrackTableList(netlink.ConntrackTable, family)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					left[c.Forward.SrcIP.String()+" to "+c.Forward.DstIP.String()] = true
				}
			}
			if want := []string{"10.1.1.4 to 10.1.1.3", "fd10::4 to fd10::3"}; !slices.Equal(slices.Sorted(maps.Keys(left)), want) {
				t.Errorf("left are %v, want %v", left, want)
			}
		})
	}
}

// BenchmarkForgetHosts deletes the connections of a host without any, among 30 000 connections.
func BenchmarkForgetHosts(b *testing.B) {
	for version, host := range map[string]string{"IPv4": "10.1.1.2", "IPv6": "fd10::2"} {
		b.Run(version, func(b *testing.B) {
			ns, h := namespaceOfTest(b)
			for client, n := netip.MustParseAddr(host).Next().Next(), 0; n < 30_000; client, n = client.Next(), n+1 {
				track(b, h, client.String(), host, netip.MustParseAddr(host).Next().String())
			}
			for b.Loop() {
				if err := (Hosts{netip.MustParseAddr(host)}).Forget(ns); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
