package vswitchtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"google.golang.org/protobuf/proto"
)

func runFeatures(t *testing.T, c Config) {
	t.Run("each kind of value is configured, or refused with a reason", func(t *testing.T) { runModels(t, c) })
	t.Run("each option of an interface is configured, or refused with a reason", func(t *testing.T) { testInterfaceOptions(t, c) })
	t.Run("each type of interface is configured, or refused with a reason", func(t *testing.T) { testInterfaceTypes(t, c) })
	for _, test := range []struct {
		name    string
		values  []proto.Message
		packets func(t *testing.T, c Config)
	}{
		{"cross-connect of two interfaces", []proto.Message{
			tap("a"), tap("b"), crossConnect("a", "b"), crossConnect("b", "a"),
		}, testCrossConnect},
		{"port mirroring (SPAN)", []proto.Message{
			tap("a"), tap("b"), tap("c"), span("a", "b", vpp_interfaces.Span_BOTH), span("a", "c", vpp_interfaces.Span_RX),
			span("b", "c", vpp_interfaces.Span_TX), crossConnect("a", "b"),
		}, testSpan},
		{"proxy ARP", []proto.Message{tap("a"), tap("b"), answerFor("10.50.0.70-10.50.0.80", "a", "b")}, testProxyARP},
		{"cross-connect of routed packets", []proto.Message{
			tap("a"), tap("b"), tap("c"),
			crossConnectIP("a", vpp_l3.L3XConnect_IPV4, "10.51.0.2@b", "10.52.0.2@c"),
			crossConnectIP("a", vpp_l3.L3XConnect_IPV6, "fd00:51::2@b", "fd00:52::2@c", "fd00:52::3@c"),
			crossConnectIP("b", vpp_l3.L3XConnect_IPV4, "@a"),
		}, testL3XConnect},
		{"multipath route", []proto.Message{
			tap("a"), tap("b"), multipath("10.99.0.0/24", "10.51.0.2", "a", 1), multipath("10.99.0.0/24", "10.52.0.2", "b", 3),
			multipath("fd00:99::/64", "fd00:51::2", "a", 2), multipath("fd00:99::/64", "fd00:52::2", "b", 1),
			&vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: "10.99.0.128/25"}, &vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: "fd00:99::8:0/112"},
		}, testMultipath},
		{"route into a network without a next hop", withoutNextHop(), testWithoutNextHop},
		{"segment routing (SRv6)", segmentRouting, testSRv6},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Run("is found by a restarted agent, and removed", func(t *testing.T) { testLifecycle(t, c, test.values) })
			t.Run("packets", func(t *testing.T) { test.packets(t, c) })
		})
	}
	// Features that older kernels lack.
	t.Run("segment routing (SRv6) that removes the header one node early (`psp`)", func(t *testing.T) {
		need(t, startAgent(t, c.NewSite(t)), earlyRemoval)
		t.Run("is found by a restarted agent, and removed", func(t *testing.T) { testLifecycle(t, c, earlyRemoval) })
		t.Run("packets", func(t *testing.T) { testEarlyRemoval(t, c) })
	})
}

// testLifecycle configures values, restarts the agent, and removes the values by a resync.
func testLifecycle(t *testing.T, c Config, values []proto.Message) {
	site := c.NewSite(t)
	a := startAgent(t, site)
	a.resync(values...)
	a.wantConfigured(values)
	wantNothingExecuted(t, "second resync", a.resync(values...))
	a.stop()
	b := startAgent(t, site)
	wantNothingExecuted(t, "resync after a restart", b.resync(values...))
	b.wantConfigured(values)
	b.stop()
	b = startAgent(t, site)
	wantSomethingExecuted(t, "resync without values", b.resync())
	wantNothingExecuted(t, "second resync without values", b.resync())
	b.resync(values...)
	b.wantConfigured(values)
}

func tap(name string, addrs ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: addrs,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2, HostIfName: "host-" + name}},
	}
}

func crossConnect(from, to string) *vpp_l2.XConnectPair {
	return &vpp_l2.XConnectPair{ReceiveInterface: from, TransmitInterface: to}
}

func span(from, to string, d vpp_interfaces.Span_Direction) *vpp_interfaces.Span {
	return &vpp_interfaces.Span{InterfaceFrom: from, InterfaceTo: to, Direction: d}
}

type bench struct {
	*agent
	t    testing.TB
	site PacketSite
}

func newBench(t testing.TB, c Config) *bench {
	t.Helper()
	site, ok := c.NewSite(t).(PacketSite)
	if !ok {
		t.Skip("this driver carries no packets")
	}
	return &bench{startAgent(t, site), t, site}
}

func (b *bench) host(name string, addrs ...string) *Host {
	b.t.Helper()
	h := b.site.Plug(b.t, "host-"+name)
	h.Exec(b.t, "sysctl -qw net.ipv4.ip_forward=0") // a new namespace inherits the machine's setting
	h.Exec(b.t, "ip link set dev eth0 up")
	for _, addr := range addrs {
		family := "-4"
		if strings.Contains(addr, ":") {
			family = "-6"
		}
		h.Exec(b.t, fmt.Sprintf("ip %s addr add %s dev eth0%s", family, addr, map[string]string{"-6": " nodad"}[family]))
	}
	return h
}

func testCrossConnect(t *testing.T, c Config) {
	b := newBench(t, c)
	b.resync(tap("a", "10.50.0.9/24"), tap("b"), tap("c"), crossConnect("a", "b"), crossConnect("b", "a"))
	h1, h2, h3 := b.host("a", "10.50.0.1/24"), b.host("b", "10.50.0.2/24"), b.host("c", "10.50.0.3/24")
	wantPing(t, "through the cross-connect", h1, "10.50.0.2")
	wantNoPing(t, "the vswitch, which no longer gets the frames,", h1, "10.50.0.9")
	wantNoPing(t, "a host elsewhere", h1, "10.50.0.3")
	if _, err := h1.Ask("10.50.0.2", h2.Serve(t, "10.50.0.2")); err != nil {
		t.Errorf("TCP: %v", err)
	}
	b.resync(tap("a", "10.50.0.9/24"), tap("b"), tap("c"), crossConnect("a", "c"), crossConnect("c", "a"))
	wantPing(t, "after a change", h1, "10.50.0.3")
	wantNoPing(t, "after a change", h1, "10.50.0.2")
	wantPing(t, "back", h3, "10.50.0.1")
	b.resync(tap("a", "10.50.0.9/24"), tap("b"), tap("c"))
	wantNoPing(t, "after the removal", h1, "10.50.0.3")
	wantPing(t, "the vswitch after the removal", h1, "10.50.0.9")
}

func testSpan(t *testing.T, c Config) {
	b := newBench(t, c)
	base := []proto.Message{tap("a", "10.50.0.9/24"), tap("b"), tap("c")}
	b.resync(append(base, span("a", "b", vpp_interfaces.Span_BOTH), span("a", "c", vpp_interfaces.Span_RX))...)
	h1, h2, h3 := b.host("a", "10.50.0.1/24"), b.host("b"), b.host("c")
	both, received := newPingCounter(t, h2), newPingCounter(t, h3)
	wantPing(t, "the vswitch while its packets are copied", h1, "10.50.0.9")
	both.want("requests and answers", 1, 1)
	received.want("requests", 1, 0)
	b.resync(append(base, span("a", "c", vpp_interfaces.Span_TX))...)
	wantPing(t, "after a change", h1, "10.50.0.9")
	both.want("no more copies", 0, 0)
	received.want("answers", 0, 1)
}

func answerFor(addrs string, interfaces ...string) *vpp_l3.ProxyARP {
	first, last, _ := strings.Cut(addrs, "-")
	p := &vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: first, LastIpAddr: last}}}
	for _, name := range interfaces {
		p.Interfaces = append(p.Interfaces, &vpp_l3.ProxyARP_Interface{Name: name})
	}
	return p
}

func testProxyARP(t *testing.T, c Config) {
	borrowing := tap("b")
	borrowing.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "a"}
	t.Run("unnumbered interface", func(t *testing.T) { testProxyARPTo(t, c, borrowing) })
	t.Run("interface without an address", func(t *testing.T) {
		if c.ForwardsByAddress {
			t.Skip("the vswitch forwards no packets to interfaces without an address")
		}
		testProxyARPTo(t, c, tap("b"))
	})
}

// testProxyARPTo attaches a host behind "b" in the on-link subnet of the host behind "a".
func testProxyARPTo(t *testing.T, c Config, there *vpp_interfaces.Interface) {
	b := newBench(t, c)
	base := []proto.Message{
		tap("a", "10.50.0.9/24"), there,
		&vpp_l3.Route{DstNetwork: "10.50.0.77/32", OutgoingInterface: "b"},
	}
	b.resync(base...)
	h1 := b.host("a", "10.50.0.1/24")
	b.host("b", "10.50.0.77/24")
	wantNoPing(t, "before", h1, "10.50.0.77")
	b.resync(append(base, answerFor("10.50.0.1-10.50.0.80", "a", "b"))...)
	wantPing(t, "with proxy ARP", h1, "10.50.0.77")
	down, up := tap("a", "10.50.0.9/24"), tap("a", "10.50.0.9/24")
	down.Enabled = false
	b.put(down)
	b.put(up)
	h1.Exec(t, "ip neigh flush dev eth0")
	wantPing(t, "after the interface was disabled", h1, "10.50.0.77")
	b.resync(append(base, answerFor("10.50.0.1-10.50.0.76", "a", "b"))...)
	h1.Exec(t, "ip neigh flush dev eth0")
	wantNoPing(t, "out of the range", h1, "10.50.0.77")
	b.resync(append(base, answerFor("10.50.0.1-10.50.0.80", "b"))...)
	wantNoPing(t, "on another interface", h1, "10.50.0.77")
}

// crossConnectIP makes a cross-connect with paths of increasing preference value, each "<next
// hop>@<interface>".
func crossConnectIP(iface string, p vpp_l3.L3XConnect_Protocol, paths ...string) *vpp_l3.L3XConnect {
	x := &vpp_l3.L3XConnect{Interface: iface, Protocol: p}
	for i, text := range paths {
		gw, out, _ := strings.Cut(text, "@")
		x.Paths = append(x.Paths, &vpp_l3.L3XConnect_Path{NextHopAddr: gw, OutgoingInterface: out, Preference: uint32(i / 2)})
	}
	return x
}

// The routes lead to "b", the cross-connect of the host behind "a" leads to "c".
func testL3XConnect(t *testing.T, c Config) {
	for _, family := range []struct {
		protocol          vpp_l3.L3XConnect_Protocol
		ip, net1, net2, n string
		target, all       string
		length            int
		atOnce            string // flag that skips duplicate address detection
	}{
		{vpp_l3.L3XConnect_IPV4, "ip", "10.50.0.", "10.51.0.", "10.52.0.", "10.99.0.1", "0.0.0.0/0", 24, ""},
		{vpp_l3.L3XConnect_IPV6, "ip -6", "fd00:50::", "fd00:51::", "fd00:52::", "fd00:99::1", "::/0", 64, "nodad"},
	} {
		t.Run(family.protocol.String(), func(t *testing.T) {
			b := newBench(t, c)
			addr := func(net, host string) string { return fmt.Sprintf("%s%s/%d", net, host, family.length) }
			base := []proto.Message{
				tap("a", addr(family.net1, "9")), tap("b", addr(family.net2, "9")), tap("c", addr(family.n, "9")),
				&vpp_l3.Route{DstNetwork: family.all, NextHopAddr: family.net2 + "2", OutgoingInterface: "b"},
			}
			b.resync(base...)
			h1 := b.host("a", addr(family.net1, "1"))
			h2, h3 := b.host("b", addr(family.net2, "2")), b.host("c", addr(family.n, "2"))
			for _, h := range []*Host{h2, h3} {
				// Not on eth0, where hosts would use the address as the source of neighbour
				// requests; a router need not answer sources that are not on-link.
				h.Exec(t, fmt.Sprintf("%s addr add %s dev lo %s", family.ip, family.target, family.atOnce))
				h.Exec(t, "ip link set dev lo up")
			}
			for h, gw := range map[*Host]string{h1: family.net1, h2: family.net2, h3: family.n} {
				h.Exec(t, fmt.Sprintf("%s route add default via %s9 dev eth0", family.ip, gw))
				wantPing(t, "the vswitch before it routes", h, gw+"9") // until then, it may answer that it has no route
			}
			seen := func(what string, want *Host, ways ...*Host) {
				t.Helper()
				for _, h := range ways {
					p := h.Serve(t, family.target)
					_, err := h1.Ask(family.target, p)
					if (err == nil) != (h == want) {
						t.Errorf("%s: asking host %s: %v", what, h.NetNS, err)
					}
				}
			}
			seen("by the route", h2, h2, h3)
			x := crossConnectIP("a", family.protocol, family.n+"2@c")
			b.resync(append(base, x)...)
			seen("by the cross-connect", h3, h2, h3)
			if c.L3CrossConnectsAll {
				wantNoPing(t, "the vswitch itself, with cross-connected packets,", h1, family.net1+"9")
			} else {
				wantPing(t, "the vswitch itself", h1, family.net1+"9")
			}
			down := proto.CloneOf(base[2].(*vpp_interfaces.Interface))
			down.Enabled = false
			b.put(down)
			wantNoPing(t, "when the path is down", h1, family.target)
			b.put(base[2])
			wantPing(t, "when the path is up again, and its address is checked", h1, family.target)
			seen("when the path is up again", h3, h2, h3)
			b.resync(append(base, crossConnectIP("a", family.protocol, family.net2+"2@b"))...)
			seen("after a change", h2, h2, h3)
			b.resync(base...)
			seen("after the removal", h2, h2, h3)
		})
	}
}

func multipath(dst, gw, out string, weight uint32) *vpp_l3.Route {
	return &vpp_l3.Route{DstNetwork: dst, NextHopAddr: gw, OutgoingInterface: out, Weight: weight}
}

// Two hosts have all addresses of a network with two paths. A more specific route drops.
func testMultipath(t *testing.T, c Config) {
	b := newBench(t, c)
	base := []proto.Message{
		tap("a", "10.50.0.9/24"), tap("b", "10.51.0.9/24"), tap("c", "10.52.0.9/24"),
		&vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: "10.99.0.128/25"},
	}
	b.resync(append(base, multipath("10.99.0.0/24", "10.51.0.2", "b", 1), multipath("10.99.0.0/24", "10.52.0.2", "c", 1))...)
	h1, h2, h3 := b.host("a", "10.50.0.1/24"), b.host("b", "10.51.0.2/24"), b.host("c", "10.52.0.2/24")
	h1.Exec(t, "ip route add default via 10.50.0.9")
	for h, gw := range map[*Host]string{h2: "10.51.0.9", h3: "10.52.0.9"} {
		h.Exec(t, "ip route add default via "+gw)
		h.Exec(t, "ip route add local 10.99.0.0/24 dev lo")
	}
	first, second := newPingCounter(t, h2), newPingCounter(t, h3)
	ask := func() (viaFirst, viaSecond int) {
		t.Helper()
		for i := 1; i <= 32; i++ {
			wantPing(t, "one of the addresses", h1, fmt.Sprintf("10.99.0.%d", i))
		}
		return first.requests(), second.requests()
	}
	if a, b := ask(); a == 0 || b == 0 || a+b != 32 {
		t.Errorf("%d packets went one way and %d the other: want 32 on both together", a, b)
	}
	wantNoPing(t, "an address of the route that drops", h1, "10.99.0.129")
	b.resync(append(base, multipath("10.99.0.0/24", "10.52.0.2", "c", 1))...)
	if a, b := ask(); a != 0 || b != 32 {
		t.Errorf("with one path: %d packets went one way and %d the other: want 0 and 32", a, b)
	}
}

// withoutNextHop returns routes to hosts behind a TAP with the next hops 0.0.0.0 and ::, which mean
// none.
func withoutNextHop() []proto.Message {
	to := func(dst, nextHop string) proto.Message {
		return &vpp_l3.Route{DstNetwork: dst, NextHopAddr: nextHop, OutgoingInterface: "b"}
	}
	return []proto.Message{
		tap("a", "10.50.0.9/24", "fd00:50::9/64"), tap("b", "10.51.0.9/24", "fd00:51::9/64"),
		to("10.98.0.0/24", "0.0.0.0"), to("10.97.0.1/32", "::"), to("10.96.0.1/32", ""),
		to("fd00:98::/64", "::"), to("fd00:97::1/128", "0.0.0.0"), to("fd00:96::1/128", ""),
	}
}

func testWithoutNextHop(t *testing.T, c Config) {
	b := newBench(t, c)
	b.resync(withoutNextHop()...)
	behind := []string{"10.98.0.5", "10.97.0.1", "10.96.0.1", "fd00:98::5", "fd00:97::1", "fd00:96::1"}
	far := []string{"10.51.0.2/24", "fd00:51::2/64"}
	for _, addr := range behind {
		far = append(far, addr+map[bool]string{true: "/128", false: "/32"}[strings.Contains(addr, ":")])
	}
	h1, h2 := b.host("a", "10.50.0.1/24", "fd00:50::1/64"), b.host("b", far...)
	for h, net := range map[*Host]string{h1: "50", h2: "51"} {
		h.Exec(t, "ip route add default via 10."+net+".0.9")
		h.Exec(t, "ip -6 route add default via fd00:"+net+"::9")
	}
	for _, addr := range behind {
		wantPing(t, "an address behind the TAP", h1, addr)
	}
}

type pingCounter struct {
	t testing.TB
	h *Host
}

func newPingCounter(t testing.TB, h *Host) pingCounter {
	t.Helper()
	p := pingCounter{t, h}
	h.Exec(t, "nft add table netdev count")
	h.Exec(t, "nft add chain netdev count in { type filter hook ingress device eth0 priority 0 ; }")
	for _, typ := range []string{"echo-request", "echo-reply"} {
		h.Exec(t, "nft add counter netdev count "+typ)
		h.Exec(t, fmt.Sprintf("nft add rule netdev count in icmp type %s counter name %s", typ, typ))
	}
	return p
}

func (p pingCounter) want(what string, requests, replies int) {
	p.t.Helper()
	for typ, want := range map[string]int{"echo-request": requests, "echo-reply": replies} {
		if packets := p.reset(typ); packets != want {
			p.t.Errorf("%s: %d packets of type %s, want %d", what, packets, typ, want)
		}
	}
}

func (p pingCounter) requests() int { return p.reset("echo-request") }

func (p pingCounter) reset(typ string) (packets int) {
	p.t.Helper()
	if _, rest, ok := strings.Cut(p.h.Exec(p.t, "nft reset counter netdev count "+typ), "packets "); ok {
		_, _ = fmt.Sscan(rest, &packets)
	}
	return packets
}

func wantPing(t testing.TB, what string, from *Host, addr string) {
	t.Helper()
	if err := from.Ping(addr, 56, 5*time.Second); err != nil {
		t.Errorf("%s: ping %s: %v", what, addr, err)
	}
}

func wantNoPing(t testing.TB, what string, from *Host, addr string) {
	t.Helper()
	if err := from.Ping(addr, 56, time.Second); err == nil {
		t.Errorf("%s: ping %s was answered", what, addr)
	}
}
