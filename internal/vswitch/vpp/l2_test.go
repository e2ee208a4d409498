package vpp

import (
	"slices"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"go.fd.io/govpp/binapi/l2"
	"google.golang.org/protobuf/proto"
)

func bridgeDomain(name string) *vpp_l2.BridgeDomain {
	return &vpp_l2.BridgeDomain{Name: name, Flood: true, Forward: true, MacAge: 5, ArpTermination: true,
		Interfaces: []*vpp_l2.BridgeDomain_Interface{
			{Name: "a", BridgedVirtualInterface: true}, {Name: "b", SplitHorizonGroup: 1}, {Name: "c", SplitHorizonGroup: 1},
		},
		ArpTerminationTable: []*vpp_l2.BridgeDomain_ArpTerminationEntry{
			{IpAddress: "10.9.0.1", PhysAddress: "02:00:00:00:00:01"}, {IpAddress: "fd00:9::1", PhysAddress: "02:00:00:00:00:02"},
		},
	}
}

func createBridge(t testing.TB, v *VSwitch, bd *vpp_l2.BridgeDomain) {
	t.Helper()
	must(t, v.Bridges().Create(t.Context(), bd))
	for _, iface := range bd.GetInterfaces() {
		must(t, v.Bridges().Bind(t.Context(), bd.GetName(), iface))
	}
}

// wantBridges ignores the order of parts.
func wantBridges(t testing.TB, v *VSwitch, want ...*vpp_l2.BridgeDomain) {
	t.Helper()
	found, err := v.Bridges().List(t.Context(), want)
	must(t, err)
	sorted := func(list []*vpp_l2.BridgeDomain) (out []*vpp_l2.BridgeDomain) {
		for _, bd := range list {
			bd = proto.CloneOf(bd)
			slices.SortFunc(bd.Interfaces, func(x, y *vpp_l2.BridgeDomain_Interface) int { return strings.Compare(x.GetName(), y.GetName()) })
			slices.SortFunc(bd.ArpTerminationTable, func(x, y *vpp_l2.BridgeDomain_ArpTerminationEntry) int {
				return strings.Compare(x.GetIpAddress(), y.GetIpAddress())
			})
			out = append(out, bd)
		}
		return out
	}
	if have, want := texts(sorted(found)), texts(sorted(want)); !slices.Equal(have, want) {
		t.Errorf("listed\n  %s\nwant\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestBridgeDomains(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := withLoopbacks(t, s, "a", "b", "c", "d")
		// A bridge domain without a tag is foreign.
		must(t, v.vpp.Call(t.Context(), session.Core, &l2.BridgeDomainAddDelV2{IsAdd: true, BdID: 77, Learn: true}, &l2.BridgeDomainAddDelV2Reply{}))
		bd := bridgeDomain("lan")
		other := &vpp_l2.BridgeDomain{Name: "other", Learn: true, UnknownUnicastFlood: true}
		for range 2 {
			createBridge(t, v, bd)
			createBridge(t, v, other)
			wantBridges(t, v, bd, other)
		}
		v = open(t, s)
		changed := proto.CloneOf(bd)
		changed.ArpTerminationTable = []*vpp_l2.BridgeDomain_ArpTerminationEntry{
			{IpAddress: "10.9.0.1", PhysAddress: "02:00:00:00:00:03"}, {IpAddress: "FD00:9:0::2", PhysAddress: "02:00:00:00:00:02"},
		}
		must(t, v.Bridges().Update(t.Context(), bd, changed))
		wantBridges(t, v, changed, other)

		// Another virtual interface needs the removal of the first.
		d := &vpp_l2.BridgeDomain_Interface{Name: "d", BridgedVirtualInterface: true}
		if err := v.Bridges().Bind(t.Context(), "lan", d); err == nil || !strings.Contains(err.Error(), "another virtual interface") {
			t.Errorf("a second BVI: %v", err)
		}
		wantBridges(t, v, changed, other)
		must(t, v.Bridges().Unbind(t.Context(), "lan", changed.GetInterfaces()[0]))
		must(t, v.Bridges().Bind(t.Context(), "lan", d))
		changed.Interfaces[0] = d
		// An interface that moved to another domain stays there.
		must(t, v.Bridges().Bind(t.Context(), "other", &vpp_l2.BridgeDomain_Interface{Name: "a"}))
		must(t, v.Bridges().Unbind(t.Context(), "lan", &vpp_l2.BridgeDomain_Interface{Name: "a"}))
		other.Interfaces = []*vpp_l2.BridgeDomain_Interface{{Name: "a"}}
		wantBridges(t, v, changed, other)

		// An existing domain with other parameters is corrected.
		changed.Flood, changed.Learn, changed.MacAge, changed.ArpTermination = false, true, 0, false
		must(t, v.Bridges().Create(t.Context(), changed))
		wantBridges(t, v, changed, other)
		for range 2 {
			must(t, v.Bridges().Delete(t.Context(), changed), v.Bridges().Delete(t.Context(), other))
		}
		wantBridges(t, v)
		all, err := session.Dump[l2.BridgeDomainDetails](t.Context(), v.vpp, session.Core, &l2.BridgeDomainDump{BdID: ^uint32(0), SwIfIndex: ownership.NoIndex})
		must(t, err)
		if len(all) != 1 || all[0].BdID != 77 {
			t.Errorf("the foreign domain has gone: %v", all)
		}
	})
}

func TestL2FIB(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := withLoopbacks(t, s, "a", "b", "c")
		bd := bridgeDomain("lan")
		createBridge(t, v, bd)
		all := []*vpp_l2.FIBEntry{
			{BridgeDomain: "lan", PhysAddress: "02:00:00:00:00:01", OutgoingInterface: "b", StaticConfig: true},
			{BridgeDomain: "lan", PhysAddress: "02:00:00:00:AA:02", OutgoingInterface: "c", StaticConfig: true},
			{BridgeDomain: "lan", PhysAddress: "02:00:00:00:00:03", Action: vpp_l2.FIBEntry_DROP},
			{BridgeDomain: "lan", PhysAddress: "02:00:00:00:00:04", OutgoingInterface: "c"},
		}
		for range 2 {
			must(t, v.FIB().(vswitch.Bulk[*vpp_l2.FIBEntry]).CreateAll(t.Context(), all)...)
			wantListed(t, v.FIB().List, all, all...)
		}
		v = open(t, s)
		wantListed(t, v.FIB().List, all, all...)
		unexpected := proto.CloneOf(all[2])
		unexpected.StaticConfig = true
		wantListed(t, v.FIB().List, all[:2], all[0], all[1], unexpected)
		for want, e := range map[string]*vpp_l2.FIBEntry{
			"the bridge domain does not exist": {BridgeDomain: "nosuch", PhysAddress: "02:00:00:00:00:05", OutgoingInterface: "b"},
			"no interface nosuch":              {BridgeDomain: "lan", PhysAddress: "02:00:00:00:00:05", OutgoingInterface: "nosuch"},
		} {
			if err := v.FIB().Create(t.Context(), e); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("creating %v: %v", e, err)
			}
		}
		must(t, v.Bridges().Unbind(t.Context(), "lan", bd.GetInterfaces()[1]))
		if err := v.FIB().Create(t.Context(), all[0]); err == nil || !strings.Contains(err.Error(), "not in the bridge domain") {
			t.Errorf("an entry of an interface that is not bound: %v", err)
		}
		must(t, v.FIB().Delete(t.Context(), all[1]), v.FIB().Delete(t.Context(), all[1]))
		must(t, v.FIB().Delete(t.Context(), all[2]), v.FIB().Delete(t.Context(), all[3]))
		wantListed(t, v.FIB().List, nil, all[0])
		// The next domain does not inherit entries.
		must(t, v.Bridges().Delete(t.Context(), bd))
		createBridge(t, v, bd)
		wantListed(t, v.FIB().List, nil)
		must(t, v.FIB().Delete(t.Context(), &vpp_l2.FIBEntry{BridgeDomain: "nosuch", PhysAddress: "02:00:00:00:00:05"}))
	})
}

func TestCrossConnectsAndMirrors(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := withLoopbacks(t, s, "a", "b", "c")
		x := []*vpp_l2.XConnectPair{{ReceiveInterface: "a", TransmitInterface: "b"}, {ReceiveInterface: "b", TransmitInterface: "a"}}
		mirrors := []*vpp_interfaces.Span{
			{InterfaceFrom: "a", InterfaceTo: "b", Direction: vpp_interfaces.Span_BOTH}, {InterfaceFrom: "a", InterfaceTo: "c", Direction: vpp_interfaces.Span_RX},
			{InterfaceFrom: "b", InterfaceTo: "c", Direction: vpp_interfaces.Span_TX, IsL2: true},
		}
		for range 2 {
			createAll(t, v.XConnects(), x...)
			createAll(t, v.Spans(), mirrors...)
			wantListed(t, v.XConnects().List, nil, x...)
			wantListed(t, v.Spans().List, nil, mirrors...)
		}
		x[0].TransmitInterface, mirrors[0].Direction = "c", vpp_interfaces.Span_TX
		createAll(t, v.XConnects(), x...)
		createAll(t, v.Spans(), mirrors...)
		v = open(t, s)
		wantListed(t, v.XConnects().List, nil, x...)
		wantListed(t, v.Spans().List, nil, mirrors...)
		// An interface that moved to a bridge domain stays there.
		bd := &vpp_l2.BridgeDomain{Name: "lan", Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "a"}}}
		createBridge(t, v, bd)
		for range 2 {
			deleteAll(t, v.XConnects(), x...)
			deleteAll(t, v.Spans(), mirrors...)
		}
		wantBridges(t, v, bd)
		wantListed(t, v.XConnects().List, x)
		wantListed(t, v.Spans().List, mirrors)
		deleteAll(t, v.XConnects(), &vpp_l2.XConnectPair{ReceiveInterface: "nosuch", TransmitInterface: "a"})
		deleteAll(t, v.Spans(), &vpp_interfaces.Span{InterfaceFrom: "nosuch", InterfaceTo: "a"})
	})
}

func TestL3CrossConnects(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := withLoopbacks(t, s, "a", "b", "c")
		all := []*vpp_l3.L3XConnect{
			{Interface: "a", Paths: []*vpp_l3.L3XConnect_Path{
				{OutgoingInterface: "b", NextHopAddr: "10.2.0.9", Weight: 1}, {OutgoingInterface: "c", NextHopAddr: "10.3.0.9", Weight: 3, Preference: 1},
			}},
			{Interface: "a", Protocol: vpp_l3.L3XConnect_IPV6, Paths: []*vpp_l3.L3XConnect_Path{{OutgoingInterface: "b", NextHopAddr: "fd00:2::9", Weight: 1}}},
			{Interface: "c", Paths: []*vpp_l3.L3XConnect_Path{{OutgoingInterface: "b", Weight: 1}}},
		}
		for range 2 {
			createAll(t, v.L3XConnects(), all...)
			wantListed(t, v.L3XConnects().List, nil, all...)
		}
		v = open(t, s)
		all[0].Paths = all[0].Paths[:1]
		createAll(t, v.L3XConnects(), all...)
		wantListed(t, v.L3XConnects().List, all, all...)
		for range 2 {
			deleteAll(t, v.L3XConnects(), all...)
		}
		wantListed(t, v.L3XConnects().List, nil)
	})
}

func TestL3CrossConnectsWithoutThePlugin(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		if s.server == nil {
			t.Skip("this VPP has the plugin")
		}
		s.server.Without("l3xc")
		v := withLoopbacks(t, s, "a")
		wantListed(t, v.L3XConnects().List, nil)
		err := v.L3XConnects().Create(t.Context(), &vpp_l3.L3XConnect{Interface: "a", Paths: []*vpp_l3.L3XConnect_Path{{OutgoingInterface: "a"}}})
		if err == nil || !strings.Contains(err.Error(), "l3xc_plugin.so") {
			t.Errorf("got %v, want an error that names the plugin", err)
		}
	})
}

func TestProxyARP(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := withLoopbacks(t, s, "a", "b")
		addTable(t, v, 7, false)
		p := &vpp_l3.ProxyARP{
			Ranges:     []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "10.0.0.1", LastIpAddr: "10.0.0.9"}, {FirstIpAddr: "10.0.1.1", LastIpAddr: "10.0.1.9", VrfId: 7}},
			Interfaces: []*vpp_l3.ProxyARP_Interface{{Name: "a"}, {Name: "b"}},
		}
		for range 2 {
			createAll(t, v.ProxyARP(), p)
			must(t, v.ProxyARP().AddInterface(t.Context(), "a"), v.ProxyARP().AddInterface(t.Context(), "b"))
			wantListed(t, v.ProxyARP().List, nil, p)
		}
		v = open(t, s)
		p.Ranges = p.Ranges[1:]
		createAll(t, v.ProxyARP(), p)
		must(t, v.ProxyARP().RemoveInterface(t.Context(), "a"), v.ProxyARP().RemoveInterface(t.Context(), "a"))
		p.Interfaces = p.Interfaces[1:]
		wantListed(t, v.ProxyARP().List, nil, p)
		if err := v.ProxyARP().Create(t.Context(), &vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "10.0.0.1", LastIpAddr: "10.0.0.9", VrfId: 99}}}); err == nil {
			t.Error("a range in a VRF that does not exist was taken")
		}
		must(t, v.ProxyARP().RemoveInterface(t.Context(), "b"), v.ProxyARP().RemoveInterface(t.Context(), "nosuch"))
		deleteAll(t, v.ProxyARP(), p)
		deleteAll(t, v.ProxyARP(), p)
		wantListed(t, v.ProxyARP().List, nil)
	})
}

func createAll[V proto.Message](t testing.TB, port vswitch.Values[V], values ...V) {
	t.Helper()
	for _, value := range values {
		must(t, port.Create(t.Context(), value))
	}
}

func deleteAll[V proto.Message](t testing.TB, port vswitch.Values[V], values ...V) {
	t.Helper()
	for _, value := range values {
		must(t, port.Delete(t.Context(), value))
	}
}
