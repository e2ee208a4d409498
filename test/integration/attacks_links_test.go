package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/vishvananda/netlink"
)

// neighbours returns the neighbour entries of node1 that the agent did not create.
func (l *attackLab) neighbours(t *testing.T) (list []string) {
	t.Helper()
	known := append(slices.Concat(l.evil.Addrs, l.near.Addrs), vswitch.LinkLocal(l.evil.MAC), vswitch.LinkLocal(l.near.MAC))
	for line := range strings.Lines(command.In(t, l.node1.Netns, "ip neigh show nud all")) {
		f := strings.Fields(line)
		addr, err := netip.ParseAddr(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if addr.IsMulticast() || strings.Contains(line, "PERMANENT") || strings.Contains(line, "NOARP") || slices.Contains(known, addr) || slices.Contains(f, "eth0") {
			continue // the kernel manages neighbours on the underlay
		}
		list = append(list, line)
	}
	return list
}

// testNeighbours: a flood does not fill the neighbour table, and false claims are ignored.
func (l *attackLab) testNeighbours(t *testing.T) {
	const flood = 3000 // three times the kernel's default table size
	before := l.drops(t, "node1")
	stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
	evil, gateway4 := l.evil, netip.MustParseAddr("10.1.1.1")
	gateway6 := netip.MustParseAddr("fd10:1::1")
	var arp, nd, foreign6 [][]byte
	for name, src := range l.foreignSources(false) {
		if name != "broadcast" {
			arp = append(arp, frames.ARP(evil.MAC, false, evil.MAC, src, gateway4), frames.ARP(evil.MAC, true, evil.MAC, src, gateway4))
		}
	}
	arp = append(arp, frames.ARP(evil.MAC, false, stranger, evil.Of(false), gateway4), frames.ARP(stranger, false, stranger, evil.Of(false), gateway4))
	all, everybody := netip.MustParseAddr("ff02::1"), frames.MAC{0x33, 0x33, 0, 0, 0, 1}
	discover := func(src netip.Addr, kind byte, target netip.Addr, option byte, value frames.MAC) []byte {
		return frames.Discovery(evil.MAC, everybody, src, all, kind, target, option, value)
	}
	for _, src := range l.foreignSources(true) {
		nd = append(nd, discover(evil.Of(true), frames.NeighborAdvertisement, src, frames.TargetLink, evil.MAC))
		foreign6 = append(foreign6, discover(src, frames.NeighborSolicitation, gateway6, frames.SourceLink, evil.MAC))
	}
	nd = append(nd, discover(evil.Of(true), frames.NeighborSolicitation, gateway6, frames.SourceLink, stranger),
		discover(vswitch.LinkLocal(evil.MAC), frames.RouterAdvertisement, evil.Of(true), 0, frames.MAC{}),
		discover(vswitch.LinkLocal(evil.MAC), frames.Redirect, l.near.Of(true), 0, frames.MAC{}))
	for i := range flood {
		arp = append(arp, frames.ARP(evil.MAC, false, evil.MAC, netip.AddrFrom4([4]byte{10, 1, byte(2 + i/250), byte(1 + i%250)}), gateway4))
		src := netip.AddrFrom16([16]byte{0xfd, 0x10, 0, 1, 14: byte(i >> 8), 15: byte(i) | 0x80})
		foreign6 = append(foreign6, discover(src, frames.NeighborSolicitation, gateway6, frames.SourceLink, evil.MAC))
	}
	l.sendInTurn(t, slices.Concat(arp, nd, foreign6))
	l.wantCounted(t, before, "evil", vswitch.DropARP, len(arp))
	l.wantCounted(t, before, "evil", vswitch.DropND, len(nd))
	l.wantCounted(t, before, "evil", vswitch.DropIPv6, len(foreign6))
	for _, line := range l.neighbours(t) {
		t.Errorf("the node has the neighbour %s", line)
	}
	l.wantService(t)
}

func bvi(t *testing.T, node lab.Node) (mac frames.MAC) {
	t.Helper()
	err := labtest.Inside(node.Netns, func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			if a := link.Attrs(); strings.Contains(a.Name, "vxlanBVI") {
				mac = frames.MAC(a.HardwareAddr)
			}
		}
		return err
	})
	if err != nil || mac == (frames.MAC{}) {
		t.Fatalf("the BVI of %s: %v", node.Name, err)
	}
	return mac
}

func underlayAddress(t *testing.T, node lab.Node, ipv6 bool) netip.Addr {
	t.Helper()
	if !ipv6 {
		return node.Address.Addr()
	}
	return netip.MustParseAddr(fmt.Sprintf("fd16::%d", node.Index))
}

// testVXLAN: nodes accept VXLAN packets only from other nodes.
func (l *attackLab) testVXLAN(t *testing.T) {
	overIPv6 := !l.evil.Addrs[0].Is4()
	node1, node2 := underlayAddress(t, l.node1, overIPv6), underlayAddress(t, l.node2, overIPv6)
	stranger := lab.RouterAddress.Addr()
	if overIPv6 {
		stranger = netip.MustParseAddr("fd16::fe")
	}
	inject := func(netns string, src, dst netip.Addr, to *labtest.WiredPod, at lab.Node, text string) {
		t.Helper()
		for _, addr := range to.Addrs {
			inner := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(t, at), l.far.Of(addr.Is6()), addr, text+"        ", false)
			labtest.SendVXLAN(t, netns, src, dst, inner)
		}
	}
	before := l.drops(t, "node1")
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	versions := len(l.evil.Addrs)
	own := l.evil.Of(overIPv6)
	inject(l.evil.Netns, own, node1, l.near, l.node1, "pod to its node")
	inject(l.evil.Netns, own, node2, l.far, l.node2, "pod to another node")
	inject(l.state.Underlay(), stranger, node1, l.near, l.node1, "router to a node")
	strangers := 1
	if !overIPv6 {
		inject(l.state.Outside(), lab.OutsideAddress.Addr(), node1, l.near, l.node1, "outside to a node")
		strangers++
	}
	// Frames from another node arrive, so the forged ones were well-formed.
	for _, side := range []struct {
		from, at lab.Node
		src, dst netip.Addr
		to       *labtest.WiredPod
	}{{l.node2, l.node1, node2, node1, l.near}, {l.node1, l.node2, node1, node2, l.far}} {
		text := "by a tunnel to " + side.to.Name
		inject(side.from.Netns, side.src, side.dst, side.to, side.at, text)
		seen := side.to.Wire.Receive(await.Patience, frames.Containing(text))
		if seen == nil {
			t.Errorf("packets of %s through a tunnel do not arrive", side.from.Name)
		}
		for _, forged := range []string{"pod to its node", "pod to another node", "router to a node", "outside to a node"} {
			if slices.ContainsFunc(seen, frames.Containing(forged)) {
				t.Errorf("arrived: VXLAN of %s", forged)
			}
		}
	}
	l.wantCounted(t, before, "evil", vswitch.DropVXLAN, 2*versions)
	l.wantCounted(t, before, "", vswitch.DropVXLAN, strangers*versions)
	l.wantService(t)
}
