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
	t.Run("models", func(t *testing.T) { runModels(t, c) })
	t.Run("options of an interface", func(t *testing.T) { testInterfaceOptions(t, c) })
	t.Run("interface types", func(t *testing.T) { testInterfaceTypes(t, c) })
	for _, test := range []struct {
		name    string
		values  []proto.Message
		packets func(t *testing.T, c Config)
	}{
		{"cross-connect", []proto.Message{
			tap("a"), tap("b"), crossConnect("a", "b"), crossConnect("b", "a"),
		}, testCrossConnect},
		{"span", []proto.Message{
			tap("a"), tap("b"), tap("c"), span("a", "b", vpp_interfaces.Span_BOTH), span("a", "c", vpp_interfaces.Span_RX),
			span("b", "c", vpp_interfaces.Span_TX), crossConnect("a", "b"),
		}, testSpan},
		{"proxy ARP", []proto.Message{tap("a"), tap("b"), answerFor("10.50.0.70-10.50.0.80", "a", "b")}, testProxyARP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Run("is found by a restarted agent, and removed", func(t *testing.T) { testLifecycle(t, c, test.values) })
			t.Run("packets", func(t *testing.T) { test.packets(t, c) })
		})
	}
}

// testLifecycle takes values through a resync, a restart and a resync without them.
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

// bench is a vswitch with hosts behind TAPs.
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

// host plugs a host with the addresses into the far end of tap(name).
func (b *bench) host(name string, addrs ...string) *Host {
	b.t.Helper()
	h := b.site.Plug(b.t, "host-"+name)
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

// Two hosts believe that they are on the same link.
func testProxyARP(t *testing.T, c Config) {
	b := newBench(t, c)
	base := []proto.Message{
		tap("a", "10.50.0.9/24"), tap("b"),
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

// pingCounter counts the ping packets that a host sees, whoever they are for.
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

// want checks what came in since the last time.
func (p pingCounter) want(what string, requests, replies int) {
	p.t.Helper()
	for typ, want := range map[string]int{"echo-request": requests, "echo-reply": replies} {
		var packets int
		out := p.h.Exec(p.t, "nft reset counter netdev count "+typ)
		if _, rest, ok := strings.Cut(out, "packets "); ok {
			_, _ = fmt.Sscan(rest, &packets)
		}
		if packets != want {
			p.t.Errorf("%s: %d packets of type %s, want %d", what, packets, typ, want)
		}
	}
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
