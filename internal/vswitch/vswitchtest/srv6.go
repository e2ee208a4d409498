package vswitchtest

import (
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func baseEnd(sid string, psp bool) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{Psp: psp}}}
}

func endT(sid string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionT{EndFunctionT: &vpp_srv6.LocalSID_EndT{}}}
}

func endX(sid, iface, nextHop string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionX{
		EndFunctionX: &vpp_srv6.LocalSID_EndX{OutgoingInterface: iface, NextHop: nextHop}}}
}

func endDX2(sid, iface string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx2{
		EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{OutgoingInterface: iface}}}
}

func endDX4(sid, iface, nextHop string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx4{
		EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: nextHop}}}
}

func endDX6(sid, iface, nextHop string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx6{
		EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: iface, NextHop: nextHop}}}
}

func endDT4(sid string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDt4{EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{}}}
}

func endDT6(sid string) proto.Message {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDt6{EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{}}}
}

// policy has segment lists with weights 1, 2, …; spaces separate segments.
func policy(bsid string, insert bool, ways ...string) *vpp_srv6.Policy {
	p := &vpp_srv6.Policy{Bsid: bsid, SrhEncapsulation: !insert}
	for i, segments := range ways {
		p.SegmentLists = append(p.SegmentLists, &vpp_srv6.Policy_SegmentList{Weight: uint32(i + 1), Segments: strings.Fields(segments)})
	}
	return p
}

func steer(name, network, bsid string) proto.Message {
	return &vpp_srv6.Steering{Name: name, PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid}, Traffic: &vpp_srv6.Steering_L3Traffic_{
		L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: network}}}
}

var segmentRouting = []proto.Message{
	tap("a", "10.50.0.9/24", "fd50::9/64"),
	baseEnd("fc00:1::e", false), baseEnd("FC00:1:0::E0", false), endT("fc00:1::7"), endX("fc00:1::a", "a", "fd50::1"),
	endDX2("fc00:1::d2", "a"), endDX4("fc00:1::d4", "a", "10.50.0.1"), endDX6("fc00:1::d6", "a", "fd50:0::1"),
	endDT4("fc00:1::4"), endDT6("fc00:1::6"),
	policy("fc00:1::b1", false, "fc00:2::1 fc00:2::2", "fc00:2::3"), policy("FC00:1:0::B2", true, "fc00:2::1"),
	steer("IPv4", "10.52.0.0/16", "FC00:1:0::B1"), steer("IPv6", "fd52:0::/64", "fc00:1::b1"), steer("inserted", "fd53::/64", "fc00:1::b2"),
	&vpp_srv6.SRv6Global{EncapSourceAddress: "fd50:0::9"},
}

// earlyRemoval enables PSP, which removes the header at the penultimate segment.
var earlyRemoval = []proto.Message{baseEnd("fc00:1::e", false), baseEnd("FC00:1:0::E0", true)}

func testSRv6(t *testing.T, c Config) { throughSegments(t, c, false) }

func testEarlyRemoval(t *testing.T, c Config) { throughSegments(t, c, true) }

// Hosts of two nodes communicate through segments, with or without PSP.
func throughSegments(t *testing.T, c Config, psp bool) {
	n1, n2 := newBench(t, c), newBench(t, c)
	n1.site.Connect(t, n2.site)
	underlay := func(b *bench, self, other, locator string) []proto.Message {
		nic := b.site.NIC()
		return []proto.Message{
			&vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{self + "/64"}},
			&vpp_l3.Route{DstNetwork: locator, NextHopAddr: other, OutgoingInterface: nic},
		}
	}
	b1 := append(underlay(n1, "fd16::1", "fd16::2", "fc00:2::/64"),
		tap("a", "10.51.0.9/24", "fd51::9/64"), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd16::1"},
		baseEnd("fc00:1::e", false), endDT4("fc00:1::4"), endDT6("fc00:1::6"),
		steer("IPv4", "10.52.0.0/24", "fc00:1::b4"), steer("service", "10.99.0.1/32", "fc00:1::b4"),
		steer("IPv6", "fd52::/64", "fc00:1::b6"), steer("binding", "10.98.0.1/32", "fc00:1::bb"),
		policy("fc00:1::bb", false, "fc00:2::b fc00:2::d4"))
	there := []proto.Message{
		policy("fc00:1::b4", false, "fc00:2::e fc00:1::e fc00:2::d4"),
		policy("fc00:1::b6", false, "fc00:2::a fc00:1::e fc00:2::d6"),
	}
	b2 := append(underlay(n2, "fd16::2", "fd16::1", "fc00:1::/64"),
		tap("a", "10.52.0.9/24", "fd52::9/64"), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd16::2"},
		baseEnd("fc00:2::e", psp), endX("fc00:2::a", n2.site.NIC(), "fd16::1"),
		endDX4("fc00:2::d4", "a", "10.52.0.1"), endDX6("fc00:2::d6", "a", "fd52::1"), endDT6("fc00:2::6"),
		policy("fc00:2::b", false, "fc00:1::e fc00:2::6"),
		policy("fc00:2::b4", false, "fc00:1::4"), policy("fc00:2::b6", false, "fc00:1::6"),
		steer("IPv4", "10.51.0.0/24", "fc00:2::b4"), steer("IPv6", "fd51::/64", "fc00:2::b6"))
	n1.resync(append(b1, there...)...)
	n1.wantConfigured(append(b1, there...))
	n2.resync(b2...)
	n2.wantConfigured(b2)

	h1, h2 := n1.host("a", "10.51.0.1/24", "fd51::1/64"), n2.host("a", "10.52.0.1/24", "fd52::1/64")
	for _, command := range []string{"ip -4 route add default via 10.51.0.9", "ip -6 route add default via fd51::9"} {
		h1.Exec(t, command)
	}
	for _, command := range []string{
		"ip -4 route add default via 10.52.0.9", "ip -6 route add default via fd52::9",
		// Addresses behind the neighbour, which does not answer ARP requests for them.
		"sysctl -qw net.ipv4.conf.all.arp_ignore=1", "ip addr add 10.99.0.1/32 dev lo", "ip addr add 10.98.0.1/32 dev lo", "ip link set dev lo up",
	} {
		h2.Exec(t, command)
	}
	wantPing(t, "IPv4, END twice and END.DX4", h1, "10.52.0.1")
	wantPing(t, "IPv6, END.X, END and END.DX6", h1, "fd52::1")
	wantPing(t, "backwards, END.DT4", h2, "10.51.0.1")
	wantPing(t, "backwards, END.DT6", h2, "fd51::1")
	wantPing(t, "the node itself, END.DT6", h2, "fd51::9")
	wantPing(t, "END.DX4 with an address behind the neighbour", h1, "10.99.0.1")
	wantPing(t, "a binding SID", h1, "10.98.0.1")
	if _, err := h1.Ask("10.52.0.1", h2.Serve(t, "10.52.0.1")); err != nil {
		t.Errorf("TCP: %v", err)
	}

	there[0] = policy("fc00:1::b4", false, "fc00:2::d4", "fc00:2::e fc00:2::d4")
	for _, op := range n1.put(there[0]) {
		if op.Key != models.Key(there[0]) {
			t.Errorf("to change a policy, %v %s", op.Operation, op.Key)
		}
	}
	wantPing(t, "after the policy changed", h1, "10.52.0.1")
	wantPing(t, "after the policy changed, elsewhere", h1, "10.99.0.1")

	if psp { // hosts do not accept an inserted header
		n1.put(policy("fc00:1::b6", true, "fc00:2::e"))
		wantPing(t, "with an inserted header, which END removes", h1, "fd52::1")
	}

	n2.resync(b2[:len(b2)-2]...)
	wantNoPing(t, "without the way back", h1, "10.52.0.1")
	n1.stop()
	n2.resync(b2...)
	wantPing(t, "without the agent", h1, "10.52.0.1")
}
