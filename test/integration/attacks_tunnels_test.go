package integration

import (
	"encoding/binary"
	"fmt"
	"net"
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
	"golang.org/x/sys/unix"
)

type tunnelAttack struct {
	*attackLab
	overIPv6     bool
	node1, node2 netip.Addr
	sent         []string
}

func (l *attackLab) tunnelAttack(t *testing.T) *tunnelAttack {
	t.Helper()
	ipv6 := !l.evil.Addrs[0].Is4()
	return &tunnelAttack{attackLab: l, overIPv6: ipv6, node1: underlayAddress(t, l.node1, ipv6), node2: underlayAddress(t, l.node2, ipv6)}
}

func (a *tunnelAttack) inject(t *testing.T, text, netns string, src netip.Addr, dst netip.AddrPort, at lab.Node, to *labtest.WiredPod) {
	t.Helper()
	from := a.far
	if to == a.far {
		from = a.near
	}
	a.sent = append(a.sent, text)
	addr := to.Of(a.overIPv6)
	labtest.SendVXLANTo(t, netns, src, dst, frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(t, at), from.Of(a.overIPv6), addr, text+"        ", false))
}

// requireNothingArrived sends a marker through the real tunnels and checks that it arrives first.
func (a *tunnelAttack) requireNothingArrived(t *testing.T) {
	t.Helper()
	for _, side := range []struct {
		src, dst string
		from, to netip.Addr
		at       lab.Node
		pod      *labtest.WiredPod
	}{
		{a.attackLab.node2.Netns, "node1", a.node2, a.node1, a.attackLab.node1, a.near},
		{a.attackLab.node1.Netns, "node2", a.node1, a.node2, a.attackLab.node2, a.far},
	} {
		a.barriers++
		last := fmt.Sprintf("last-%d-", a.barriers)
		forged := a.sent
		a.inject(t, last, side.src, side.from, netip.AddrPortFrom(side.to, 4789), side.at, side.pod)
		a.sent = forged
		seen := side.pod.Wire.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("a frame of the tunnel to %s does not arrive", side.dst)
		}
		for _, text := range forged {
			if slices.ContainsFunc(seen, frames.Containing(text)) {
				t.Errorf("arrived: %s", text)
			}
		}
	}
}

func (a *tunnelAttack) awaitDrops(t *testing.T, node string, before map[dropKey]uint64, pod string, reason vswitch.DropReason, more uint64) {
	t.Helper()
	key := dropKey{pod, reason}
	await.That(t, fmt.Sprintf("%s counts %d drops of %q as %s", node, more, pod, reason), func() error {
		if now := a.drops(t, node)[key]; now < before[key]+more {
			return fmt.Errorf("%d, before %d", now, before[key])
		}
		return nil
	})
}

// testTranslatedVXLAN: another service proxy on the nodes translates connections to the VXLAN port
// of either node. The guards drop the packets of any sender.
func (l *attackLab) testTranslatedVXLAN(t *testing.T) {
	const toNode1, toNode2 = 30791, 30792
	a := l.tunnelAttack(t)
	family, address := "ip", func(addr netip.Addr) string { return addr.String() }
	if a.overIPv6 {
		family, address = "ip6", func(addr netip.Addr) string { return "[" + addr.String() + "]" }
	}
	for _, node := range []lab.Node{l.node1, l.node2} {
		to := fmt.Sprintf("fib daddr type local udp dport %d dnat %s to %s:4789; fib daddr type local udp dport %d dnat %s to %s:4789;", toNode1, family, address(a.node1), toNode2, family, address(a.node2))
		command.In(t, node.Netns, fmt.Sprintf(`nft 'table inet proxy {
			chain enters { type nat hook prerouting priority -100; %s }
			chain sends { type nat hook output priority -100; %s }
			chain leaves { type nat hook postrouting priority 100; udp dport 4789 ct status dnat masquerade; }
		}'`, to, to))
		t.Cleanup(func() { command.In(t, node.Netns, "nft delete table inet proxy") })
	}
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	before1, before2 := l.drops(t, "node1"), l.drops(t, "node2")
	send := func(text, netns string, src netip.Addr) {
		t.Helper()
		a.inject(t, text+" by node1 to node1", netns, src, netip.AddrPortFrom(a.node1, toNode1), l.node1, l.near)
		a.inject(t, text+" by node1 to node2", netns, src, netip.AddrPortFrom(a.node1, toNode2), l.node2, l.far)
		a.inject(t, text+" by node2 to node1", netns, src, netip.AddrPortFrom(a.node2, toNode1), l.node1, l.near)
		a.inject(t, text+" by node2 to node2", netns, src, netip.AddrPortFrom(a.node2, toNode2), l.node2, l.far)
	}
	send("pod", l.evil.Netns, l.evil.Of(a.overIPv6))
	send("router", l.state.Underlay(), netip.Addr{})
	send("node", l.node1.Netns, netip.Addr{})
	outside := uint64(1)
	if !a.overIPv6 {
		outside++
		send("outside", l.state.Outside(), lab.OutsideAddress.Addr())
	}
	a.requireNothingArrived(t)

	a.awaitDrops(t, "node1", before1, "evil", vswitch.DropVXLANTranslated, 1) // to node1
	a.awaitDrops(t, "node1", before1, "evil", vswitch.DropVXLAN, 1)           // to node2
	a.awaitDrops(t, "node1", before1, "", vswitch.DropVXLANTranslated, 2*outside+1)
	a.awaitDrops(t, "node2", before2, "", vswitch.DropVXLANTranslated, 2*outside+2+2)
	l.wantService(t)
}

// testVXLANByAnotherInterface: a host on another network of the node spoofs the address of a peer.
func (l *attackLab) testVXLANByAnotherInterface(t *testing.T) {
	a := l.tunnelAttack(t)
	bits := a.node2.BitLen()
	spoof := l.node1.Netns + "-spoof"
	command.Run(t, "ip", "netns", "add", spoof)
	t.Cleanup(func() { command.Run(t, "ip", "netns", "delete", spoof) })
	command.In(t, l.node1.Netns, fmt.Sprintf(`ip link add stray0 type veth peer name eth0 netns %s
		ip link set stray0 up; ip address add 172.27.0.1/24 dev stray0; ip address add fd27::1/64 dev stray0 nodad
		sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.stray0.rp_filter=0`, spoof))
	command.In(t, spoof, fmt.Sprintf(`ip link set eth0 up; ip address add 172.27.0.2/24 dev eth0; ip address add fd27::2/64 dev eth0 nodad
		ip address add %s/%d dev eth0 %s; ip route add %s via %s`, a.node2, bits, map[bool]string{true: "nodad"}[a.overIPv6], a.node1, map[bool]string{false: "172.27.0.1", true: "fd27::1"}[a.overIPv6]))
	before := l.drops(t, "node1")
	l.near.Wire.Drain()
	a.inject(t, "the address of a peer", spoof, a.node2, netip.AddrPortFrom(a.node1, 4789), l.node1, l.near)
	a.awaitDrops(t, "node1", before, "", vswitch.DropVXLANInterface, 1)
	own := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(t, l.node1), l.far.Of(a.overIPv6), l.near.Of(a.overIPv6), "the address of the node itself", false)
	a.sent = append(a.sent, "the address of the node itself")
	wireIn(t, spoof, "eth0").Send(t, frames.Between(deviceMAC(t, spoof, "eth0"), deviceMAC(t, l.node1.Netns, "stray0"),
		netip.AddrPortFrom(a.node1, 50000), netip.AddrPortFrom(a.node1, 4789), string(frames.VXLAN(10, own))))
	if a.overIPv6 { // Linux itself drops the IPv4 packet
		a.awaitDrops(t, "node1", before, "", vswitch.DropUplink, 1)
	}
	a.requireNothingArrived(t)
	l.wantService(t)
}

// testPathMTUOfTunnels: a host on the nodes' network sends path MTUs to a peer. Only one about a TCP
// connection of the node counts, because TCP checks that its sender saw the connection.
func (l *attackLab) testPathMTUOfTunnels(t *testing.T) {
	const port = 7790
	a := l.tunnelAttack(t)
	router := wireIn(t, l.state.Underlay(), "nodes")
	from, to := deviceMAC(t, l.state.Underlay(), "nodes"), deviceMAC(t, l.node1.Netns, "eth0")
	host := map[bool]netip.Addr{false: lab.RouterAddress.Addr(), true: netip.MustParseAddr("fd16::fe")}[a.overIPv6]
	report := func(mtu uint32, quoted []byte) {
		t.Helper()
		kind := [2]byte{3, 4}
		if a.overIPv6 {
			kind = [2]byte{2, 0}
		}
		router.Send(t, frames.ICMPError(from, to, host, kind[0], kind[1], mtu, quoted))
	}
	learned := func() string {
		t.Helper()
		out := command.In(t, l.node1.Netns, "ip route get "+a.node2.String())
		_, mtu, _ := strings.Cut(out, " mtu ")
		return strings.TrimSpace(mtu)
	}

	// A socket for all addresses, of which others know the port.
	if err := labtest.Inside(l.node1.Netns, func() error {
		socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
		if err == nil {
			t.Cleanup(func() { socket.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom
	vxlan := frames.Between(from, to, at(a.node1, 50000), at(a.node2, 4789), string(frames.VXLAN(10, make([]byte, 64))))
	before := l.drops(t, "node1")
	forged := [][]byte{
		vxlan, frames.WithHeaders(vxlan, unix.IPPROTO_DSTOPTS),
		frames.ICMP(from, to, a.node1, a.node2, []byte{map[bool]byte{false: 8, true: 128}[a.overIPv6], 0, 0, 0, 0, 1, 0, 1}),
		frames.Between(from, to, at(a.node1, port), at(a.node2, port), "of a socket"),
		frames.TCP(from, to, at(a.node1, port), at(a.node2, port), frames.ACK),
	}
	for _, quoted := range forged {
		for _, mtu := range []uint32{68, 552, 1280, 1400} {
			report(mtu, quoted)
		}
	}
	l.wantCounted(t, before, "", vswitch.DropICMP, 4*len(forged))
	if mtu := learned(); mtu != "" {
		t.Errorf("the path to the peer has MTU %q", mtu)
	}

	listen(t, l.node2.Netns, at(a.node2, port))
	ear := wireIn(t, l.node2.Netns, "eth0")
	conn, err := dialTCP(l.node1.Netns, at(a.node2, port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const text = "what the router quotes"
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	seen := ear.Receive(await.Patience, frames.Containing(text))
	if seen == nil {
		t.Fatal("the peer does not get the text")
	}
	quoted := seen[len(seen)-1]
	seq := quoted[map[bool]int{false: 14 + 20 + 4, true: 14 + 40 + 4}[a.overIPv6]:]
	next := binary.BigEndian.Uint32(seq) + uint32(len(text))
	binary.BigEndian.PutUint32(seq, next)
	defer command.In(t, l.node1.Netns, "ip route flush cache; ip -6 route flush cache")
	await.That(t, "the path MTU of a TCP connection is learned", func() error {
		report(1400, quoted)
		if mtu := learned(); !strings.HasPrefix(mtu, "1400") {
			return fmt.Errorf("MTU %q", mtu)
		}
		return nil
	})
	l.wantService(t)
}
