package vswitchtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

// vrfBench has two VRFs with the same addresses, and VRF 0:
//
//	VRF 5   a 10.50.0.9 ── host 10.50.0.2     c 10.51.0.9 ── host 10.51.0.2
//	VRF 6   b 10.50.0.9 ── host 10.50.0.2     d 10.51.0.9 ── host 10.51.0.2
//	VRF 0   m 10.60.0.9 ── host 10.60.0.2
//
// IPv6 addresses have the same suffixes: fd00:50::9 etc.
type vrfBench struct {
	*bench
	silent        bool         // see Config.SilentDrops
	ports         map[int]bool // ports that hosts have used
	values        []proto.Message
	a, b, c, d, m *Host
}

func newVRFBench(t *testing.T, c Config) *vrfBench {
	t.Helper()
	v := &vrfBench{bench: newBench(t, c), silent: c.SilentDrops, ports: map[int]bool{}}
	v.values = []proto.Message{vrfTable(5, false), vrfTable(5, true), vrfTable(6, false), vrfTable(6, true)}
	for name, net := range map[string]string{"a": "50", "b": "50", "c": "51", "d": "51", "m": "60"} {
		vrf := map[string]uint32{"a": 5, "c": 5, "b": 6, "d": 6}[name]
		v.values = append(v.values, inVRF(vrf, tap(name, "10."+net+".0.9/24", "fd00:"+net+"::9/64")))
	}
	v.resync(v.values...)
	v.wantConfigured(v.values)
	if v.vs.Capabilities().HostStackShared {
		// Both VRFs share the kernel's ICMP rate limit per address.
		v.site.Self().Exec(t, "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0")
	}
	for name, h := range map[string]**Host{"a": &v.a, "b": &v.b, "c": &v.c, "d": &v.d, "m": &v.m} {
		net := map[string]string{"a": "50", "b": "50", "c": "51", "d": "51", "m": "60"}[name]
		*h = v.routed(name, net, "2")
	}
	return v
}

// routed attaches a host to a network in which the vswitch has the suffix 9.
func (v *vrfBench) routed(name, net, last string) *Host {
	v.t.Helper()
	h := v.host(name, "10."+net+".0."+last+"/24", "fd00:"+net+"::"+last+"/64")
	h.Exec(v.t, "ip route add default via 10."+net+".0.9 dev eth0")
	h.Exec(v.t, "ip -6 route add default via fd00:"+net+"::9 dev eth0")
	return h
}

func (v *vrfBench) with(more ...proto.Message) {
	v.t.Helper()
	values := append(append([]proto.Message{}, v.values...), more...)
	v.resync(values...)
	v.wantConfigured(more)
}

// wantAsked checks that packets to the address arrive at that host and at no other host with the
// same address.
func (v *vrfBench) wantAsked(t *testing.T, what string, from *Host, addr string, want *Host, others ...*Host) {
	t.Helper()
	if _, err := from.Ask(addr, v.serve(t, want, addr)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, h := range others {
		if _, err := from.Ask(addr, v.serve(t, h, addr)); err == nil {
			t.Errorf("%s: the host of the other VRF answered", what)
		}
	}
}

// serve is Host.Serve on a port that no host has used. The port of an answer identifies its host,
// and hosts choose ports from a small range.
func (v *vrfBench) serve(t *testing.T, h *Host, addr string) int {
	t.Helper()
	for {
		if port := h.Serve(t, addr); !v.ports[port] {
			v.ports[port] = true
			return port
		}
	}
}

// wantRefused checks that the vswitch answers with an ICMP error, unless Config.SilentDrops is set.
// It retries because of the rate limit of about one error per second.
func (v *vrfBench) wantRefused(t *testing.T, what string, from *Host, addr string) {
	t.Helper()
	if v.silent {
		// The first packets may be lost during neighbour resolution.
		if out, err := from.Try("ping -n -c 4 -i 0.05 -W 0.2 " + addr); err == nil {
			t.Errorf("%s: ping %s: %s; want no answer", what, addr, out)
		}
		return
	}
	var err error
	for range 5 {
		if _, err = from.Try("ping -n -c 1 -W 1 " + addr); err == nil {
			break
		}
		if strings.Contains(err.Error(), "nreachable") {
			return
		}
	}
	t.Errorf("%s: ping %s: %v; want it to be unreachable", what, addr, err)
}

func both(net, last string) []string {
	return []string{"10." + net + ".0." + last, "fd00:" + net + "::" + last}
}

func runVRFPackets(t *testing.T, c Config) {
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		t.Skip("this driver carries no packets")
	}
	t.Run("the same addresses in two VRFs", func(t *testing.T) { testOverlap(t, newVRFBench(t, c)) })
	t.Run("no way out of a VRF, and none in", func(t *testing.T) { testNoLeak(t, newVRFBench(t, c)) })
	t.Run("routes between VRFs", func(t *testing.T) { testInterVRF(t, newVRFBench(t, c)) })
	t.Run("routes in a VRF", func(t *testing.T) { testRoutesInVRF(t, newVRFBench(t, c)) })
	t.Run("interfaces of all kinds", func(t *testing.T) { testVRFInterfaces(t, newVRFBench(t, c), c.NewSite(t).(PacketSite)) })
	t.Run("features of interfaces", func(t *testing.T) { testVRFFeatures(t, newVRFBench(t, c), c.NewSite(t).(PacketSite)) })
	t.Run("changes", func(t *testing.T) { testVRFMoves(t, newVRFBench(t, c)) })
}

func testOverlap(t *testing.T, v *vrfBench) {
	for i, target := range both("51", "2") {
		v.wantAsked(t, "in VRF 5", v.a, target, v.c, v.d)
		v.wantAsked(t, "in VRF 6", v.b, target, v.d, v.c)
		v.wantAsked(t, "back", v.c, both("50", "2")[i], v.a, v.b)
	}
	for _, h := range []*Host{v.a, v.b, v.c, v.d} {
		for _, own := range append(both("50", "9"), both("51", "9")...) {
			wantPing(t, "the vswitch itself", h, own)
		}
	}
	out, _ := v.a.Try("ping -n -c 1 -t 1 -W 2 10.51.0.2")
	if !strings.Contains(out, "From 10.50.0.9") {
		t.Errorf("a packet at the end of its life: %s; want an error from 10.50.0.9", out)
	}
	out, _ = v.b.Try("ping -6 -n -c 1 -t 1 -W 2 fd00:51::2")
	if !strings.Contains(out, "From fd00:5") {
		t.Errorf("a packet at the end of its life: %s; want an error from the vswitch", out)
	}
	if v.vs.Capabilities().HostStackShared {
		self := v.site.Self()
		for i, addr := range both("50", "9") {
			port := self.Serve(t, []string{"0.0.0.0", "::"}[i])
			for _, h := range []*Host{v.a, v.b} {
				seen, err := h.Ask(addr, port)
				if want := both("50", "2")[i]; err != nil || seen != want {
					t.Errorf("the node saw %q (%v), want %s", seen, err, want)
				}
			}
		}
	}
}

func testNoLeak(t *testing.T, v *vrfBench) {
	for _, h := range []*Host{v.a, v.b} {
		for _, addr := range append(both("60", "2"), both("60", "9")...) {
			v.wantRefused(t, "out of a VRF", h, addr)
		}
	}
	for _, addr := range append(append(both("50", "2"), both("50", "9")...), both("51", "9")...) {
		v.wantRefused(t, "into a VRF", v.m, addr)
	}
	for _, addr := range both("60", "9") {
		wantPing(t, "the vswitch in VRF 0", v.m, addr)
	}
	// A host may have the same address as the node in another VRF.
	v.with(inVRF(5, tap("e", "10.60.0.1/24", "fd00:60::1/64")))
	e := v.host("e", "10.60.0.9/24", "fd00:60::9/64")
	e.Exec(t, "ip route add default via 10.60.0.1")
	e.Exec(t, "ip -6 route add default via fd00:60::1")
	for i, addr := range both("60", "1") {
		wantPing(t, "from an address that the node has in VRF 0", e, addr)
		wantPing(t, "to that address", v.a, both("60", "9")[i])
	}
	// A VRF with only IPv4 must not forward IPv6 outside.
	v.with(inVRF(6, tap("f", "10.62.0.9/24")))
	f := v.routed("f", "62", "2")
	wantPing(t, "the vswitch", f, "10.62.0.9")
	f.Exec(t, "ip -6 neigh replace fd00:62::9 lladdr "+v.macOf("f")+" dev eth0 nud permanent")
	v.m.Exec(t, "ip -6 route add fd00:62::/64 via fd00:60::9 dev eth0")
	wantNoPing(t, "IPv6 from an interface with IPv4 in a VRF", f, "fd00:60::2")
}

func (v *vrfBench) macOf(iface string) string {
	v.t.Helper()
	list, err := v.vs.Interfaces().List(v.t.Context(), nil)
	for _, i := range list {
		if i.GetName() == iface {
			return i.GetPhysAddress()
		}
	}
	v.t.Fatalf("interface %s is not listed: %v", iface, err)
	return ""
}

func testInterVRF(t *testing.T, v *vrfBench) {
	v.with(
		interVRF(5, "0.0.0.0/0", 0), interVRF(0, "10.50.0.0/24", 5), interVRF(5, "::/0", 0), interVRF(0, "fd00:50::/64", 5),
		&vpp_l3.Route{Type: vpp_l3.Route_DROP, VrfId: 5, DstNetwork: "10.60.0.128/25"},
		// Through VRF 0.
		inVRF(6, tap("f", "10.62.0.9/24")), interVRF(6, "10.50.0.0/25", 0), interVRF(0, "10.62.0.0/24", 6),
	)
	f := v.routed("f", "62", "2")
	for i, addr := range both("60", "2") {
		v.wantAsked(t, "from VRF 5 to VRF 0", v.a, addr, v.m)
		wantPing(t, "from VRF 5 to the vswitch in VRF 0", v.a, both("60", "9")[i])
		v.wantAsked(t, "from VRF 0 to VRF 5", v.m, both("50", "2")[i], v.a, v.b)
		wantPing(t, "from VRF 0 to the vswitch in VRF 5", v.m, both("50", "9")[i])
		v.wantAsked(t, "routes of VRF 5", v.a, both("51", "2")[i], v.c, v.d)
		v.wantRefused(t, "routes of neither VRF", v.a, both("77", "2")[i])
	}
	wantNoPing(t, "drops of VRF 5", v.a, "10.60.0.130")
	v.wantRefused(t, "from VRF 6, which has no route", v.d, "10.60.0.2")
	v.wantAsked(t, "from VRF 6 by way of VRF 0 to VRF 5", f, "10.50.0.2", v.a, v.b)
	v.wantAsked(t, "and back", v.a, "10.62.0.2", f)

	v.with(interVRF(5, "10.60.0.0/24", 0))
	v.wantRefused(t, "without a way back", v.m, "10.50.0.2")
	v.with(interVRF(5, "10.61.0.0/24", 6), interVRF(6, "10.50.0.2/32", 5), inVRF(6, tap("g", "10.61.0.9/24")))
	g := v.routed("g", "61", "2")
	v.wantAsked(t, "from VRF 5 to VRF 6", v.a, "10.61.0.2", g)
	v.with()
	v.wantRefused(t, "after the removal", v.a, "10.61.0.2")
	v.wantRefused(t, "after the removal", v.a, "10.60.0.2")
	wantPing(t, "what stays", v.a, "10.51.0.2")
}

func testRoutesInVRF(t *testing.T, v *vrfBench) {
	for _, h := range []*Host{v.c, v.d} {
		h.Exec(t, "ip addr add 10.99.0.1/32 dev lo")
		h.Exec(t, "ip -6 addr add fd00:99::1/128 dev lo")
	}
	routes := func(vrf uint32, out string) []proto.Message {
		return []proto.Message{
			routeIn(vrf, "10.99.0.0/24", "10.51.0.2", ""), routeIn(vrf, "fd00:99::/64", "fd00:51::2", out),
			&vpp_l3.Route{Type: vpp_l3.Route_DROP, VrfId: vrf, DstNetwork: "10.99.0.128/25"},
		}
	}
	v.with(append(routes(5, "c"), routes(6, "d")...)...)
	for _, addr := range []string{"10.99.0.1", "fd00:99::1"} {
		v.wantAsked(t, "by a route of VRF 5", v.a, addr, v.c, v.d)
		v.wantAsked(t, "by a route of VRF 6", v.b, addr, v.d, v.c)
		v.wantRefused(t, "in VRF 0", v.m, addr)
	}
	wantNoPing(t, "a dropped packet", v.a, "10.99.0.129")
	down := inVRF(5, tap("c", "10.51.0.9/24", "fd00:51::9/64"))
	up := proto.CloneOf(down)
	down.Enabled = false
	v.put(down)
	wantNoPing(t, "while the interface is disabled", v.a, "10.99.0.1")
	v.put(up)
	for _, addr := range []string{"10.99.0.1", "fd00:99::1"} {
		wantPing(t, "when the interface is enabled again", v.a, addr)
	}
	v.wantRefused(t, "the interface that is enabled again from VRF 0", v.m, "10.51.0.9")

	v.with(routeIn(5, "10.99.0.0/24", "10.51.0.2", "c"), routeIn(5, "10.99.0.0/24", "10.52.0.2", "h"), inVRF(5, tap("h", "10.52.0.9/24")))
	h := v.routed("h", "52", "2")
	v.c.Exec(t, "ip route add local 10.99.0.0/24 dev lo")
	h.Exec(t, "ip route add local 10.99.0.0/24 dev lo")
	first, second := newPingCounter(t, v.c), newPingCounter(t, h)
	for i := 1; i <= 32; i++ {
		wantPing(t, "by two paths", v.a, fmt.Sprintf("10.99.0.%d", i))
	}
	if x, y := first.requests(), second.requests(); x == 0 || y == 0 || x+y != 32 {
		t.Errorf("%d packets went one way and %d the other: want 32 on both together", x, y)
	}
	v.with(&vpp_l3.ARPEntry{Interface: "a", IpAddress: "10.50.0.2", PhysAddress: "02:00:00:00:00:01", Static: true})
	wantNoPing(t, "a host with another MAC than configured", v.c, "10.50.0.2")
	wantPing(t, "the one with its address in the other VRF", v.d, "10.50.0.2")
}

func testVRFInterfaces(t *testing.T, v *vrfBench, peer PacketSite) {
	v.with(
		inVRF(5, loopback("lo5", "10.55.0.1/24", "fd00:55::1/64")), borrower("u", "lo5"), routeIn(5, "10.55.0.7/32", "", "u"),
		routeIn(5, "fd00:55::7/128", "", "u"),
		inVRF(5, loopback("bvi", "10.56.0.9/24")), tap("p"), &vpp_l2.BridgeDomain{
			Name: "bd", Forward: true, Flood: true, UnknownUnicastFlood: true, Learn: true,
			Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "bvi", BridgedVirtualInterface: true}, {Name: "p"}},
		},
	)
	port{t, v.vs}.create(inVRF(6, afPacket("af", v.site.NIC(), "10.57.0.1/24")))
	u := v.host("u", "10.55.0.7/24", "fd00:55::7/64")
	u.Exec(t, "ip route add default via 10.55.0.1")
	u.Exec(t, "ip -6 route add default via fd00:55::1")
	for i, own := range []string{"10.55.0.1", "fd00:55::1"} {
		wantPing(t, "the address borrowed by an unnumbered interface", u, own)
		v.wantAsked(t, "from an unnumbered interface", u, both("51", "2")[i], v.c, v.d)
		wantPing(t, "to an unnumbered interface", v.a, []string{"10.55.0.7", "fd00:55::7"}[i])
		v.wantRefused(t, "to it from VRF 0", v.m, []string{"10.55.0.7", "fd00:55::7"}[i])
		v.wantRefused(t, "to its address from VRF 0", v.m, own)
	}
	p := v.routed("p", "56", "2")
	wantPing(t, "a bridged virtual interface", p, "10.56.0.9")
	v.wantAsked(t, "from a bridge domain", p, "10.51.0.2", v.c, v.d)
	wantPing(t, "into a bridge domain", v.a, "10.56.0.2")
	v.wantRefused(t, "into it from VRF 0", v.m, "10.56.0.2")

	v.site.Connect(t, peer)
	h := peer.Self()
	h.Exec(t, "ip link set dev "+peer.NIC()+" up")
	h.Exec(t, "ip addr add 10.57.0.2/24 dev "+peer.NIC())
	h.Exec(t, "ip route add default via 10.57.0.1")
	wantPing(t, "an AF_PACKET interface", h, "10.57.0.1")
	v.wantAsked(t, "from an AF_PACKET interface", h, "10.51.0.2", v.d, v.c)
	v.wantAsked(t, "out of an AF_PACKET interface", v.b, "10.57.0.2", h)
	v.wantRefused(t, "to an AF_PACKET interface from VRF 0", v.m, "10.57.0.1")
	v.wantRefused(t, "to an AF_PACKET interface from the other VRF", v.a, "10.57.0.2")
}

func testVRFFeatures(t *testing.T, v *vrfBench, peer PacketSite) {
	v.with(list("stop", "a out", reflect(everything()), deny(everything())), list("go", "a in", reflect(everything())))
	for i, addr := range both("51", "2") {
		v.wantAsked(t, "requests of a host behind an access list", v.a, addr, v.c, v.d)
		wantPing(t, "in the other VRF", v.d, both("50", "2")[i])
	}
	v.with(list("stop", "a out", deny(everything())))
	wantNoPing(t, "a host behind an access list", v.c, "10.50.0.2")
	wantPing(t, "the one with its address in the other VRF", v.d, "10.50.0.2")

	proxy := answerFor("10.50.0.70-10.50.0.80", "a", "b")
	if v.vs.Capabilities().MultipleVRFs {
		proxy.Ranges[0].VrfId = 5 // by default, ranges belong to the VRFs of the interfaces
	}
	v.with(inVRF(5, tap("e", "10.63.0.9/24")), routeIn(5, "10.50.0.77/32", "", "e"), proxy)
	e := v.host("e", "10.50.0.77/24")
	e.Exec(t, "ip route add default dev eth0")
	e.Exec(t, "ip neigh replace 10.50.0.2 lladdr "+v.macOf("e")+" dev eth0 nud permanent")
	wantPing(t, "an address that the vswitch answers for", v.a, "10.50.0.77")
	wantNoPing(t, "that address in the other VRF", v.b, "10.50.0.77")

	nic := v.site.NIC()
	v.with(
		&vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"192.168.16.1/24"}},
		interVRF(5, "0.0.0.0/0", 0), interVRF(0, "10.50.0.0/24", 5),
		&vpp_nat.Nat44Global{Forwarding: true}, &vpp_nat.Nat44Interface{Name: nic, NatOutside: true, OutputFeature: true},
		&vpp_nat.Nat44AddressPool{FirstIp: "192.168.16.1", VrfId: vswitch.AllVRFs},
	)
	v.site.Connect(t, peer)
	outside := peer.Self()
	outside.Exec(t, "ip link set dev "+peer.NIC()+" up")
	outside.Exec(t, "ip addr add 192.168.16.77/24 dev "+peer.NIC())
	seen, err := v.a.Ask("192.168.16.77", outside.Serve(t, "192.168.16.77"))
	if err != nil || seen != "192.168.16.1" {
		t.Errorf("the outside saw %q (%v), want 192.168.16.1", seen, err)
	}
	v.wantRefused(t, "from the other VRF", v.b, "192.168.16.77")
}

func testVRFMoves(t *testing.T, v *vrfBench) {
	move := func(name, net string, vrf uint32) {
		t.Helper()
		value := inVRF(vrf, tap(name, "10."+net+".0.9/24", "fd00:"+net+"::9/64"))
		v.put(value)
		v.wantConfigured([]proto.Message{value})
	}
	move("m", "60", 5)
	for _, addr := range both("60", "2") {
		v.wantAsked(t, "after its interface came into the VRF", v.a, addr, v.m)
		v.wantRefused(t, "from the other VRF", v.b, addr)
	}
	move("m", "60", 6)
	for _, addr := range both("60", "2") {
		v.wantAsked(t, "after its interface came into the other VRF", v.b, addr, v.m)
		v.wantRefused(t, "from the former VRF", v.a, addr)
	}
	move("m", "60", 0)
	for i, addr := range both("60", "2") {
		v.wantRefused(t, "after its interface came back into VRF 0", v.b, addr)
		wantPing(t, "the vswitch in VRF 0", v.m, both("60", "9")[i])
	}
	if v.vs.Capabilities().HostStackShared {
		if err := v.site.Self().Ping("10.60.0.2", 56, 5*time.Second); err != nil {
			t.Errorf("from the node to VRF 0: %v", err)
		}
	}
}
