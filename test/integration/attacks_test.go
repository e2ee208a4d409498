package integration

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vswitchtest/frames"
	"github.com/vishvananda/netlink"
)

// podLimit is podConnectionLimit in labs that are attacked.
const podLimit = 100

const (
	attackIPv4 = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
natExternalTrafficIPv6: true
podConnectionLimit: 100
podAllowedSources: 10.200.0.0/24,fd99::/64
`
	attackIPv6 = `
ipamConfig:
  contivCIDR: fd10::/64
  nodeInterconnectCIDR: fd16::/112
  serviceCIDR: fd96::/108
`
)

// attackLab is a lab with the pods evil and near on node1 and far on node2.
type attackLab struct {
	*lab.Lab
	state           *lab.State
	node1, node2    lab.Node
	evil, near, far attackPod
	barriers        int
}

// attackPod is a pod with a socket for frames on its eth0.
type attackPod struct {
	lab.Pod
	mac, gateway frames.MAC
	addrs        []netip.Addr
	wire         *frames.Wire
}

func newAttackLab(t *testing.T, config string) *attackLab {
	require(t)
	l := &attackLab{Lab: labWith(t, config)}
	pods := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "evil", Node: "node1"}, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	var err error
	if l.state, err = l.State(); err != nil {
		t.Fatal(err)
	}
	l.node1, l.node2 = l.state.Nodes[0], l.state.Nodes[1]
	in(t, l.state.Underlay(), "ip address add fd16::fe/112 dev nodes nodad; ip address add fd20::1/128 dev lo nodad; sysctl -qw net.ipv6.conf.all.forwarding=1")
	awaitAddresses(t, l.Lab)
	for i, pod := range []*attackPod{&l.evil, &l.near, &l.far} {
		*pod = newAttackPod(t, pods[i])
	}
	for _, to := range []attackPod{l.near, l.far} {
		for _, addr := range to.addrs {
			await.That(t, "pods reach each other", func() error { return pingIn(t.Context(), l.evil.Netns, addr, 1280) })
		}
	}
	return l
}

func newAttackPod(t *testing.T, pod lab.Pod) attackPod {
	t.Helper()
	p := attackPod{Pod: pod}
	err := labtest.Inside(pod.Netns, func() (err error) {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		p.mac = frames.MAC(link.Attrs().HardwareAddr)
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range addrs {
			if addr, _ := netip.AddrFromSlice(a.IP); !addr.Unmap().IsLinkLocalUnicast() {
				p.addrs = append(p.addrs, addr.Unmap())
			}
		}
		neighbours, neighErr := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		for _, n := range neighbours {
			if n.State&netlink.NUD_PERMANENT != 0 {
				p.gateway = frames.MAC(n.HardwareAddr)
			}
		}
		var wireErr error
		p.wire, wireErr = frames.NewWire("eth0")
		return errors.Join(err, neighErr, wireErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.wire.Close)
	slices.SortFunc(p.addrs, netip.Addr.Compare)
	return p
}

// of returns the address of the IP version.
func (p attackPod) of(ipv6 bool) netip.Addr {
	return p.addrs[slices.IndexFunc(p.addrs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
}

// outsideOf is a host outside that answers.
func outsideOf(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr("fd20::1")
	}
	return lab.OutsideAddress.Addr()
}

// wireIn opens a socket for frames.
func wireIn(t *testing.T, netns, device string) (w *frames.Wire) {
	t.Helper()
	if err := labtest.Inside(netns, func() (err error) {
		w, err = frames.NewWire(device)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// arrived sends frames of evil, and after them a datagram as it should be to each
// address, and returns which of the texts arrived before that.
func (l *attackLab) arrived(t *testing.T, forged map[string][]byte, ears map[netip.Addr]*frames.Wire) (names []string) {
	t.Helper()
	for _, ear := range ears {
		ear.Drain()
	}
	for _, name := range slices.Sorted(maps.Keys(forged)) {
		l.evil.wire.Send(t, forged[name])
	}
	for addr, ear := range ears {
		l.barriers++
		last := fmt.Sprintf("barrier-%d-", l.barriers)
		l.evil.wire.Send(t, frames.Datagram(l.evil.mac, l.evil.gateway, l.evil.of(addr.Is6()), addr, last, false))
		seen := ear.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("what the pod sends to %v with its own address does not arrive", addr)
		}
		for name := range forged {
			if slices.ContainsFunc(seen, frames.Containing(name)) {
				names = append(names, name)
			}
		}
	}
	return names
}

type dropKey struct {
	pod    string
	reason vswitch.DropReason
}

// drops is what node1 has counted.
func (l *attackLab) drops(t *testing.T, node string) map[dropKey]uint64 {
	t.Helper()
	var report statscollector.DropsReport
	if err := l.Agent(node).Get(t.Context(), statscollector.DropsURL, &report); err != nil {
		t.Fatal(err)
	}
	counts := map[dropKey]uint64{}
	for _, d := range report.Drops {
		counts[dropKey{d.Pod, vswitch.DropReason(d.Reason)}] += d.Packets
	}
	return counts
}

// wantCounted demands so many more drops on node1 than before, and that contivctl and
// metrics tell of them. pod "": of no pod.
func (l *attackLab) wantCounted(t *testing.T, before map[dropKey]uint64, pod string, reason vswitch.DropReason, more int) {
	t.Helper()
	key := dropKey{pod, reason}
	var now uint64
	await.That(t, fmt.Sprintf("%d drops of %q because of %s", more, pod, reason), func() error {
		if now = l.drops(t, "node1")[key]; now < before[key]+uint64(more) {
			return fmt.Errorf("%d, before it were %d", now, before[key])
		}
		return nil
	})
	labels := fmt.Sprintf("podName=%q,podNamespace=\"default\",reason=%q", pod, reason)
	if pod == "" {
		labels = fmt.Sprintf("podName=\"--\",podNamespace=\"--\",reason=%q", reason)
	}
	if got := counter(t, l.Lab, "node1", "guardDropPackets", labels); got < float64(now) {
		t.Errorf("the metric guardDropPackets of %s is %v, want %d", labels, got, now)
	}
	out, err := contivLab(t, l.Lab, "ctl", "drops", "node1")
	told := err == nil
	if told {
		told = false
		for line := range strings.Lines(out) {
			told = told || strings.Contains(line, " "+pod) && slices.Contains(strings.Fields(line), string(reason))
		}
	}
	if !told {
		t.Errorf("contivctl drops says nothing of %q and %s: %v\n%s", pod, reason, err, out)
	}
}

// wantService checks that nobody else is hindered, nor is the attacker where it does what it may.
func (l *attackLab) wantService(t *testing.T) {
	t.Helper()
	for _, pair := range [][2]attackPod{{l.near, l.far}, {l.far, l.near}, {l.near, l.evil}, {l.evil, l.far}} {
		for _, addr := range pair[1].addrs {
			if err := pingIn(t.Context(), pair[0].Netns, addr, 1280); err != nil {
				t.Errorf("%s → %s: %v", pair[0].Name, pair[1].Name, err)
			}
		}
	}
}

// foreignSources are addresses that evil must not send from, each of another kind.
func (l *attackLab) foreignSources(ipv6 bool) map[string]netip.Addr {
	addr := netip.MustParseAddr
	near, far := l.near.of(ipv6), l.far.of(ipv6)
	unused := near
	for range 40 {
		unused = unused.Next()
	}
	list := map[string]netip.Addr{"pod of the node": near, "pod of another node": far, "nobody in the pods' subnet": unused}
	if ipv6 {
		maps.Copy(list, map[string]netip.Addr{
			"gateway": addr("fd10:1::1"), "node": addr("fd16::1"), "other node": addr("fd16::2"), "router": addr("fd16::fe"), "tunnel's end": addr("fd30::2"),
			"outside": addr("fd20::1"), "nobody outside": addr("2001:db8::1"), "service": addr("fd96::1"), "somebody's link-local": addr("fe80::1"),
			"translated": addr("64:ff9b::808:808"), "site-local": addr("fec0::1"), "6to4": addr("2002:808:808::1"),
		})
		return list
	}
	maps.Copy(list, map[string]netip.Addr{
		"gateway": addr("10.1.1.1"), "node": l.node1.Address.Addr(), "other node": l.node2.Address.Addr(), "router": lab.RouterAddress.Addr(), "tunnel's end": addr("192.168.30.2"),
		"outside": lab.OutsideAddress.Addr(), "nobody outside": addr("8.8.8.8"), "service": addr("10.96.0.1"), "unspecified": addr("0.0.0.0"), "broadcast": addr("255.255.255.255"),
		"loopback": addr("127.0.0.1"), "multicast": addr("224.0.0.1"),
	})
	return list
}

// Attacks of a pod, and of hosts that are no nodes, on nodes of the kernel: none has an
// effect, each is counted, and nobody else notices.
func TestAttacks(t *testing.T) {
	l := newAttackLab(t, attackIPv4)
	t.Run("foreign sources", l.testForeignSources)
	t.Run("ARP and neighbour discovery", l.testNeighbours)
	t.Run("VXLAN", l.testVXLAN)
	t.Run("loopback of the node", l.testLoopback)
	t.Run("time-outs of connections", l.testTimeouts)
	t.Run("spoofed handshakes", l.testHandshakes)
	t.Run("pods with further addresses", l.testAllowedSources)
	t.Run("an agent that restarts", func(t *testing.T) {
		if err := l.StopAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		ear := map[netip.Addr]*frames.Wire{l.near.of(false): l.near.wire}
		forged := map[string][]byte{"while there is no agent": frames.Datagram(l.evil.mac, l.evil.gateway, l.far.of(false), l.near.of(false), "while there is no agent", false)}
		if names := l.arrived(t, forged, ear); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
		if err := l.StartAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if names := l.arrived(t, forged, ear); len(names) > 0 {
			t.Errorf("arrived after the start: %q", names)
		}
	})
	labtest.RequireQuiet(t, l.Lab)
	requireRestartWithoutOperations(t, l.Lab, "node1")
}

func TestAttacksOnTunnelsOverIPv6(t *testing.T) {
	l := newAttackLab(t, attackIPv6)
	l.testVXLAN(t)
	labtest.RequireQuiet(t, l.Lab)
}

func (l *attackLab) testForeignSources(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		before := l.drops(t, "node1")
		// Where packets go: to a pod of the node, through a tunnel, and out, translated.
		targets := map[string]netip.Addr{"near": l.near.of(ipv6), "far": l.far.of(ipv6), "outside": outsideOf(ipv6)}
		outside := wireIn(t, l.state.Underlay(), "nodes")
		ears := map[netip.Addr]*frames.Wire{targets["near"]: l.near.wire, targets["far"]: l.far.wire, targets["outside"]: outside}
		forged := map[string][]byte{}
		stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
		for to, dst := range targets {
			for kind, src := range l.foreignSources(ipv6) {
				for _, fragment := range []bool{false, true} {
					name := fmt.Sprintf("[%s (%v) to %s, fragment: %v]", kind, src, to, fragment)
					forged[name] = frames.Datagram(l.evil.mac, l.evil.gateway, src, dst, fmt.Sprintf("%-120s", name), fragment)
				}
			}
			name := fmt.Sprintf("[foreign MAC address, IPv6: %v, to %s]", ipv6, to)
			forged[name] = frames.Datagram(stranger, l.evil.gateway, l.evil.of(ipv6), dst, fmt.Sprintf("%-120s", name), false)
		}
		if kinds := len(l.foreignSources(ipv6)); kinds != 15 {
			t.Errorf("%d kinds of sources", kinds)
		}
		for _, name := range l.arrived(t, forged, ears) {
			t.Errorf("arrived: %s", name)
		}
		reason := map[bool]vswitch.DropReason{false: vswitch.DropIPv4, true: vswitch.DropIPv6}[ipv6]
		l.wantCounted(t, before, "evil", reason, 15*3*2)
		l.wantCounted(t, before, "evil", vswitch.DropMAC, 3)
	}
	l.wantService(t)
}

// neighbours of node1 that are not those that the agent gave it.
func (l *attackLab) neighbours(t *testing.T) (list []string) {
	t.Helper()
	known := append(slices.Concat(l.evil.addrs, l.near.addrs), vswitch.LinkLocal(l.evil.mac), vswitch.LinkLocal(l.near.mac))
	for line := range strings.Lines(in(t, l.node1.Netns, "ip neigh show nud all")) {
		f := strings.Fields(line)
		addr, err := netip.ParseAddr(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if addr.IsMulticast() || strings.Contains(line, "PERMANENT") || strings.Contains(line, "NOARP") || slices.Contains(known, addr) || slices.Contains(f, "eth0") {
			continue // the underlay's neighbours come and go
		}
		list = append(list, line)
	}
	return list
}

// testNeighbours: neither does a flood fill the node's table, nor does anybody believe claims.
func (l *attackLab) testNeighbours(t *testing.T) {
	const flood = 3000 // three times what a table holds by default
	before := l.drops(t, "node1")
	stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
	evil, gateway4 := l.evil, netip.MustParseAddr("10.1.1.1")
	gateway6 := netip.MustParseAddr("fd10:1::1")
	var arp, nd, foreign6 [][]byte
	for name, src := range l.foreignSources(false) {
		if name != "broadcast" {
			arp = append(arp, frames.ARP(evil.mac, false, evil.mac, src, gateway4), frames.ARP(evil.mac, true, evil.mac, src, gateway4))
		}
	}
	arp = append(arp, frames.ARP(evil.mac, false, stranger, evil.of(false), gateway4), frames.ARP(stranger, false, stranger, evil.of(false), gateway4))
	all, everybody := netip.MustParseAddr("ff02::1"), frames.MAC{0x33, 0x33, 0, 0, 0, 1}
	discover := func(src netip.Addr, kind byte, target netip.Addr, option byte, value frames.MAC) []byte {
		return frames.Discovery(evil.mac, everybody, src, all, kind, target, option, value)
	}
	for _, src := range l.foreignSources(true) {
		nd = append(nd, discover(evil.of(true), frames.NeighborAdvertisement, src, frames.TargetLink, evil.mac))
		foreign6 = append(foreign6, discover(src, frames.NeighborSolicitation, gateway6, frames.SourceLink, evil.mac))
	}
	nd = append(nd, discover(evil.of(true), frames.NeighborSolicitation, gateway6, frames.SourceLink, stranger),
		discover(vswitch.LinkLocal(evil.mac), frames.RouterAdvertisement, evil.of(true), 0, frames.MAC{}),
		discover(vswitch.LinkLocal(evil.mac), frames.Redirect, l.near.of(true), 0, frames.MAC{}))
	for i := range flood {
		arp = append(arp, frames.ARP(evil.mac, false, evil.mac, netip.AddrFrom4([4]byte{10, 1, byte(2 + i/250), byte(1 + i%250)}), gateway4))
		src := netip.AddrFrom16([16]byte{0xfd, 0x10, 0, 1, 14: byte(i >> 8), 15: byte(i) | 0x80})
		foreign6 = append(foreign6, discover(src, frames.NeighborSolicitation, gateway6, frames.SourceLink, evil.mac))
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

// sendInTurn sends so many frames at once only as the kernel's queues hold.
func (l *attackLab) sendInTurn(t *testing.T, list [][]byte) {
	t.Helper()
	const atOnce = 400
	addr := l.near.of(false)
	for chunk := range slices.Chunk(list, atOnce) {
		l.near.wire.Drain()
		for _, frame := range chunk {
			l.evil.wire.Send(t, frame)
		}
		l.barriers++
		last := fmt.Sprintf("barrier-%d-", l.barriers)
		l.evil.wire.Send(t, frames.Datagram(l.evil.mac, l.evil.gateway, l.evil.of(false), addr, last, false))
		if l.near.wire.Receive(await.Patience, frames.Containing(last)) == nil {
			t.Fatal("what the pod sends with its own address does not arrive")
		}
	}
}

// bvi is the MAC address by which a node takes what comes out of its tunnels.
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

// underlayAddress is the address of a node that its tunnels begin at.
func underlayAddress(t *testing.T, node lab.Node, ipv6 bool) netip.Addr {
	t.Helper()
	if !ipv6 {
		return node.Address.Addr()
	}
	return netip.MustParseAddr(fmt.Sprintf("fd16::%d", node.Index))
}

// testVXLAN: frames that claim to come out of a tunnel are taken from nodes only.
func (l *attackLab) testVXLAN(t *testing.T) {
	overIPv6 := !l.evil.addrs[0].Is4()
	node1, node2 := underlayAddress(t, l.node1, overIPv6), underlayAddress(t, l.node2, overIPv6)
	stranger := lab.RouterAddress.Addr()
	if overIPv6 {
		stranger = netip.MustParseAddr("fd16::fe")
	}
	inject := func(netns string, src, dst netip.Addr, to attackPod, at lab.Node, text string) {
		t.Helper()
		for _, addr := range to.addrs {
			inner := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(t, at), l.far.of(addr.Is6()), addr, text+"        ", false)
			err := labtest.Inside(netns, func() error {
				conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, 4789)))
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = conn.Write(frames.VXLAN(10, inner))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	before := l.drops(t, "node1")
	l.near.wire.Drain()
	l.far.wire.Drain()
	versions := len(l.evil.addrs)
	own := l.evil.of(overIPv6)
	inject(l.evil.Netns, own, node1, l.near, l.node1, "pod to its node")
	inject(l.evil.Netns, own, node2, l.far, l.node2, "pod to another node")
	inject(l.state.Underlay(), stranger, node1, l.near, l.node1, "router to a node")
	strangers := 1
	if !overIPv6 {
		inject(l.state.Outside(), lab.OutsideAddress.Addr(), node1, l.near, l.node1, "outside to a node")
		strangers++
	}
	// What another node sends is taken: the forged frames were as they should be.
	for _, side := range []struct {
		from, at lab.Node
		src, dst netip.Addr
		to       attackPod
	}{{l.node2, l.node1, node2, node1, l.near}, {l.node1, l.node2, node1, node2, l.far}} {
		text := "by a tunnel to " + side.to.Name
		inject(side.from.Netns, side.src, side.dst, side.to, side.at, text)
		seen := side.to.wire.Receive(await.Patience, frames.Containing(text))
		if seen == nil {
			t.Errorf("what %s sends through a tunnel does not arrive", side.from.Name)
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

// dialTCP opens a connection in a network namespace.
func dialTCP(netns string, to netip.AddrPort) (c net.Conn, err error) {
	err = labtest.Inside(netns, func() (err error) {
		c, err = net.DialTimeout("tcp", to.String(), await.Patience)
		return err
	})
	return c, err
}

// listen accepts connections of TCP in a network namespace and keeps them open.
func listen(t *testing.T, netns string, at netip.AddrPort) {
	t.Helper()
	err := labtest.Inside(netns, func() error {
		listener, err := net.Listen("tcp", at.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// connections are those that the node tracks.
func connections(t *testing.T, node lab.Node, ipv6 bool) (flows []*netlink.ConntrackFlow) {
	t.Helper()
	family := netlink.InetFamily(netlink.FAMILY_V4)
	if ipv6 {
		family = netlink.FAMILY_V6
	}
	if err := labtest.Inside(node.Netns, func() (err error) {
		flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, family)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return flows
}

// testTimeouts: what pods open is forgotten soon, what others open as the administrator says.
func (l *attackLab) testTimeouts(t *testing.T) {
	const port = 7100
	for _, ipv6 := range []bool{false, true} {
		near, evil := l.near.of(ipv6), l.evil.of(ipv6)
		silent := netip.MustParseAddr("203.0.113.77")
		if ipv6 {
			silent = netip.MustParseAddr("fd16::77")
		}
		listen(t, l.near.Netns, netip.AddrPortFrom(near, port))
		established, err := dialTCP(l.evil.Netns, netip.AddrPortFrom(near, port))
		if err != nil {
			t.Fatal(err)
		}
		defer established.Close()
		ofNode, err := dialTCP(l.node1.Netns, netip.AddrPortFrom(near, port))
		if err != nil {
			t.Fatal(err)
		}
		defer ofNode.Close()
		from := func(c net.Conn) uint16 { return netip.MustParseAddrPort(c.LocalAddr().String()).Port() }
		tcp := func(srcPort uint16, dst netip.Addr, flags byte) {
			l.evil.wire.Send(t, frames.TCP(l.evil.mac, l.evil.gateway, netip.AddrPortFrom(evil, srcPort), netip.AddrPortFrom(dst, port), flags))
		}
		tcp(1, silent, frames.SYN)
		tcp(2, silent, frames.ACK)
		l.arrived(t, nil, map[netip.Addr]*frames.Wire{near: l.near.wire})
		remaining := map[uint16]uint32{}
		for _, flow := range connections(t, l.node1, ipv6) {
			if flow.Forward.DstPort == port {
				remaining[flow.Forward.SrcPort] = flow.TimeOut
			}
		}
		for what, want := range map[string]struct {
			port     uint16
			min, max uint32 // seconds
		}{
			"half-open":                {1, 1, 60},
			"no handshake":             {2, 1, 300},
			"established":              {from(established), 23 * 3600, 24 * 3600},
			"established, of the node": {from(ofNode), 4 * 24 * 3600, 5 * 24 * 3600},
		} {
			if got := remaining[want.port]; got < want.min || got > want.max {
				t.Errorf("IPv6 %v: %s: forgotten after %d s, want %d to %d", ipv6, what, got, want.min, want.max)
			}
		}
	}
}

// testHandshakes replays as many handshakes as once filled a node's table of connections,
// with foreign sources, and more than the limit with the pod's own: connections of the
// node and of others are made all the while.
func (l *attackLab) testHandshakes(t *testing.T) {
	const spoofed, port = 264_000, 7200
	for _, ipv6 := range []bool{false, true} {
		near, far := l.near.of(ipv6), l.far.of(ipv6)
		listen(t, l.near.Netns, netip.AddrPortFrom(near, port))
		before := l.drops(t, "node1")
		count := spoofed
		if ipv6 {
			count /= 4
		}
		list := make([][]byte, 0, count)
		for i := range count / 2 { // SYN, and ACK of what the accomplice answers
			src := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
			if ipv6 {
				src = netip.AddrFrom16([16]byte{0xfd, 0x11, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
			}
			for _, flags := range []byte{frames.SYN, frames.ACK} {
				list = append(list, frames.TCP(l.evil.mac, l.evil.gateway, netip.AddrPortFrom(src, 4000), netip.AddrPortFrom(far, 80), flags))
			}
		}
		l.sendInTurn(t, list)
		reason := map[bool]vswitch.DropReason{false: vswitch.DropIPv4, true: vswitch.DropIPv6}[ipv6]
		l.wantCounted(t, before, "evil", reason, count)

		// Own source, one connection each: neither handshakes nor what looks like the
		// middle of a connection gets beyond the limit.
		list = list[:0]
		silent := netip.MustParseAddr("203.0.113.77")
		if ipv6 {
			silent = netip.MustParseAddr("fd16::77")
		}
		const attempts = 20 * podLimit
		for i := range attempts {
			flags := []byte{frames.SYN, frames.ACK}[i%2]
			list = append(list, frames.TCP(l.evil.mac, l.evil.gateway, netip.AddrPortFrom(l.evil.of(ipv6), uint16(10000+i)), netip.AddrPortFrom(silent, 81), flags))
		}
		for _, frame := range list {
			l.evil.wire.Send(t, frame)
		}
		l.wantCounted(t, before, "evil", vswitch.DropConnections, attempts-podLimit)
		own := 0
		for _, flow := range connections(t, l.node1, ipv6) {
			src, _ := netip.AddrFromSlice(flow.Forward.SrcIP)
			if src = src.Unmap(); strings.HasPrefix(src.String(), "11.") || strings.HasPrefix(src.String(), "fd11:") {
				t.Fatalf("a spoofed connection is tracked: %v", flow)
			}
			if src == l.evil.of(ipv6) {
				own++
			}
		}
		if own > podLimit || own == 0 {
			t.Errorf("IPv6 %v: %d connections of the pod are tracked, want some, and %d at most", ipv6, own, podLimit)
		}
		for _, from := range []string{l.node1.Netns, l.far.Netns, l.node2.Netns} {
			c, err := dialTCP(from, netip.AddrPortFrom(near, port))
			if err != nil {
				t.Errorf("IPv6 %v: TCP from %s fails: %v", ipv6, from, err)
				continue
			}
			c.Close()
		}
	}
	for _, addr := range l.far.addrs {
		if err := pingIn(t.Context(), l.near.Netns, addr, 1280); err != nil {
			t.Error(err)
		}
	}
}

// testAllowedSources: a pod sends from the addresses of its annotation that the administrator
// permits, and from no others.
func (l *attackLab) testAllowedSources(t *testing.T) {
	object := policylab.Template(lab.DefaultNamespace, "keepalived", "keepalived")
	object.Annotations = map[string]string{ipnet.SourcesAnnotation: "10.200.0.10, fd99::10, 10.201.0.10," + l.near.of(false).String()}
	added := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "keepalived", Node: "node1", Template: object})
	owner := newAttackPod(t, added[0])
	as := func(src netip.Addr, text string) []byte {
		return frames.Datagram(owner.mac, owner.gateway, src, l.near.of(src.Is6()), text, false)
	}
	for _, vip := range []netip.Addr{netip.MustParseAddr("10.200.0.10"), netip.MustParseAddr("fd99::10")} {
		await.That(t, "packets from the further address arrive", func() error {
			owner.wire.Send(t, as(vip, "from the further address"))
			if l.near.wire.Receive(100*time.Millisecond, frames.Containing("from the further address")) == nil {
				return fmt.Errorf("nothing from %v", vip)
			}
			return nil
		})
	}
	check := func(when string) {
		t.Helper()
		before := l.drops(t, "node1")
		l.near.wire.Drain()
		for _, src := range []string{"10.200.0.11", "10.201.0.10", l.near.of(false).String(), "fd99::11"} {
			owner.wire.Send(t, as(netip.MustParseAddr(src), "foreign"))
		}
		for _, vip := range []string{"10.200.0.10", "fd99::10"} {
			owner.wire.Send(t, as(netip.MustParseAddr(vip), "own "+vip))
			seen := l.near.wire.Receive(await.Patience, frames.Containing("own "+vip))
			if seen == nil {
				t.Errorf("%s: nothing from %s", when, vip)
			}
			if slices.ContainsFunc(seen, frames.Containing("foreign")) {
				t.Errorf("%s: what has a foreign source arrives", when)
			}
		}
		l.wantCounted(t, before, "keepalived", vswitch.DropIPv4, 3)
		l.wantCounted(t, before, "keepalived", vswitch.DropIPv6, 1)
		// Gratuitous ARP, as whoever takes an address over sends it.
		vip := netip.MustParseAddr("10.200.0.10")
		owner.wire.Send(t, frames.ARP(owner.mac, false, owner.mac, vip, vip))
		if drops := l.drops(t, "node1")[dropKey{"keepalived", vswitch.DropARP}]; drops != 0 {
			t.Errorf("%s: %d ARP packets about its own further address were dropped", when, drops)
		}
	}
	check("at first")
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}

// What the administrator made strict stays so, and pods work all the same.
func TestStrictReversePathFilterStays(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node := st.Nodes[0]
	was := map[string]string{}
	for _, name := range []string{"all", "default", "eth0"} {
		was[name] = strings.TrimSpace(in(t, node.Netns, "sysctl -n net.ipv4.conf."+name+".rp_filter"))
		in(t, node.Netns, "sysctl -qw net.ipv4.conf."+name+".rp_filter=1")
	}
	t.Cleanup(func() {
		for name, value := range was {
			in(t, node.Netns, "sysctl -qw net.ipv4.conf."+name+".rp_filter="+value)
		}
	})
	devices := sysctls(t, node, "ipv4", "rp_filter")
	strict, far := pod(t, l, "strict", "node1"), pod(t, l, "far", "node2")
	check := func(when string) {
		t.Helper()
		requireConnected(t, l, strict, far)
		for name, value := range sysctls(t, node, "ipv4", "rp_filter") {
			if want, known := devices[name]; value != "1" && (!known || want != value) {
				t.Errorf("%s: rp_filter of %s is %s", when, name, value)
			}
		}
	}
	check("after ADD")
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
	labtest.RequireQuiet(t, l)
}

// sysctls returns a setting of all devices of a node.
func sysctls(t *testing.T, node lab.Node, family, name string) map[string]string {
	t.Helper()
	values := map[string]string{}
	if err := labtest.Inside(node.Netns, func() error {
		files, err := filepath.Glob(fmt.Sprintf("/proc/sys/net/%s/conf/*/%s", family, name))
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			values[filepath.Base(filepath.Dir(file))], err = strings.TrimSpace(string(data)), errors.Join(err, readErr)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return values
}

// A cluster without IPv6 forwards none, whatever its pods give themselves.
func TestNoIPv6ForwardingWithoutIPv6Pods(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node := st.Nodes[0]
	forwarding := func(when string) {
		t.Helper()
		for name, value := range sysctls(t, node, "ipv6", "forwarding") {
			if value != "0" {
				t.Errorf("%s: IPv6 forwarding of %s is %s", when, name, value)
			}
		}
	}
	forwarding("before")
	evil, near := newAttackPod(t, pod(t, l, "six", "node1")), newAttackPod(t, pod(t, l, "near", "node1"))
	forwarding("with pods")
	// Somebody gave the node a way to where the pod wants to.
	device := strings.Fields(in(t, node.Netns, "ip route get "+near.Address.String()))[2]
	in(t, node.Netns, "ip -6 route add fd66::2/128 dev "+device)
	t.Cleanup(func() { in(t, node.Netns, "ip -6 route del fd66::2/128 dev "+device+" || true") })
	var before statscollector.DropsReport
	if err := l.Agent("node1").Get(t.Context(), statscollector.DropsURL, &before); err != nil {
		t.Fatal(err)
	}
	near.wire.Drain()
	for i, src := range []netip.Addr{netip.MustParseAddr("fd66::1"), vswitch.LinkLocal(evil.mac), netip.MustParseAddr("2001:db8::1")} {
		evil.wire.Send(t, frames.Datagram(evil.mac, evil.gateway, src, netip.MustParseAddr("fd66::2"), fmt.Sprint("over IPv6 ", i), false))
	}
	evil.wire.Send(t, frames.Datagram(evil.mac, evil.gateway, evil.of(false), near.of(false), "over IPv4", false))
	seen := near.wire.Receive(await.Patience, frames.Containing("over IPv4"))
	if seen == nil {
		t.Error("what the pod sends over IPv4 does not arrive")
	}
	if slices.ContainsFunc(seen, frames.Containing("over IPv6")) {
		t.Error("the node forwards IPv6")
	}
	l6 := &attackLab{Lab: l}
	l6.wantCounted(t, nil, "six", vswitch.DropIPv6, 2)
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	forwarding("after a restart")
	if err := ping(t, evil.Pod, near.Pod); err != nil {
		t.Error(err)
	}
}
