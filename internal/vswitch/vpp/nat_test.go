package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
	"google.golang.org/protobuf/proto"
)

type (
	dnatStatic   = vpp_nat.DNat44_StaticMapping
	dnatLocal    = vpp_nat.DNat44_StaticMapping_LocalIP
	dnatIdentity = vpp_nat.DNat44_IdentityMapping
)

// openNAT opens a driver with NAT enabled.
func openNAT(t testing.TB, s *site, g *vpp_nat.Nat44Global) *VSwitch {
	t.Helper()
	v := open(t, s)
	if err := v.NAT().Enable(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return v
}

func service(ip string, port uint32, pods ...int) *dnatStatic {
	m := &dnatStatic{ExternalIp: ip, ExternalPort: port}
	for _, n := range pods {
		m.LocalIps = append(m.LocalIps, &dnatLocal{LocalIp: fmt.Sprintf("10.1.%d.%d", n/256, n%256), LocalPort: 8080, Probability: 1})
	}
	return m
}

func dnatValue(label string, mappings ...*dnatStatic) *vpp_nat.DNat44 {
	return &vpp_nat.DNat44{Label: label, StMappings: mappings}
}

func editMapping(m *dnatStatic, edit func(*dnatStatic)) *dnatStatic {
	edit(m)
	return m
}

// same compares found and wanted values by key.
func wantFound[V proto.Message](t testing.TB, found []V, err error, want ...V) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string]V{}
	for _, f := range found {
		byKey[models.Key(f)] = f
	}
	for _, w := range want {
		f, ok := byKey[models.Key(w)]
		if !ok || !proto.Equal(f, w) {
			t.Errorf("found %v, want %v", f, w)
		}
		delete(byKey, models.Key(w))
	}
	for key, f := range byKey {
		t.Errorf("found %s: %v", key, f)
	}
}

// wantDNAT also checks that each value is found with the same mappings if unexpected.
func wantDNAT(t testing.TB, v *VSwitch, want ...*vpp_nat.DNat44) {
	t.Helper()
	found, err := v.NAT().ListDNAT(t.Context(), want)
	wantFound(t, found, err, want...)
	found, err = v.NAT().ListDNAT(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range found {
		count[f.GetLabel()] += len(f.GetStMappings()) + len(f.GetIdMappings())
	}
	for _, w := range want {
		if n := len(w.GetStMappings()) + len(w.GetIdMappings()); len(w.GetLabel()) < 40 && count[w.GetLabel()] != n {
			t.Errorf("%s has %d mappings when it is not expected, want %d", w.GetLabel(), count[w.GetLabel()], n)
		}
	}
}

func someDNAT() []*vpp_nat.DNat44 {
	return []*vpp_nat.DNat44{
		dnatValue("default/web", service("10.96.0.1", 80, 1), service("10.96.0.1", 443, 1, 2, 3),
			editMapping(service("10.96.0.1", 53, 1, 2), func(m *dnatStatic) { m.Protocol, m.SessionAffinity = vpp_nat.DNat44_UDP, 600 })),
		dnatValue(strings.Repeat("a long name ", 6), editMapping(service("10.96.0.2", 80, 1, 2), func(m *dnatStatic) {
			m.TwiceNat, m.LocalIps[0].Probability, m.LocalIps[1].Probability = vpp_nat.DNat44_StaticMapping_SELF, 1000, 1
		})),
		dnatValue("pool", editMapping(service("10.96.0.3", 80, 1), func(m *dnatStatic) {
			m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, "10.2.0.254"
		})),
		dnatValue(strings.Repeat("a long name with a pool ", 3), editMapping(service("10.96.0.4", 80, 1), func(m *dnatStatic) {
			m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, "10.2.0.254"
		})),
		dnatValue("all", &dnatStatic{ExternalIp: "10.96.0.5", LocalIps: []*dnatLocal{{LocalIp: "10.1.0.5"}}}),
		{Label: "identities", IdMappings: []*dnatIdentity{
			{IpAddress: "10.0.0.1"}, {IpAddress: "10.0.0.2", Port: 4789, Protocol: vpp_nat.DNat44_UDP}, {IpAddress: "10.0.0.2", Port: 4789, Protocol: vpp_nat.DNat44_UDP, VrfId: 7},
		}},
		{Label: "nothing"},
	}
}

func TestDNATIsReadBackAsSet(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := openNAT(t, s, &vpp_nat.Nat44Global{Forwarding: true})
		values := someDNAT()
		for range 2 {
			if err := v.NAT().SetDNAT(t.Context(), values...); err != nil {
				t.Fatal(err)
			}
			wantDNAT(t, v, values...)
		}
		v.Close()
		v = open(t, s)
		wantDNAT(t, v, values...)
		for range 2 {
			if err := v.NAT().RemoveDNAT(t.Context(), values[:3]...); err != nil {
				t.Fatal(err)
			}
			found, err := v.NAT().ListDNAT(t.Context(), values[3:])
			wantFound(t, found, err, values[3:]...)
		}
		found, err := v.NAT().ListDNAT(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.NAT().RemoveDNAT(t.Context(), found...); err != nil {
			t.Fatal(err)
		}
		wantDNAT(t, v)
	})
}

// After each change, a new driver finds the expected state.
func TestDNATChanges(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := openNAT(t, s, &vpp_nat.Nat44Global{Forwarding: true})
		affinity := func(m *dnatStatic) { m.SessionAffinity = 60 }
		for _, value := range []*vpp_nat.DNat44{
			dnatValue("a", service("10.96.0.1", 80, 1)),
			dnatValue("a", service("10.96.0.1", 80, 1, 2)),
			dnatValue("a", service("10.96.0.1", 80, 3, 4)),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 3, 4), func(m *dnatStatic) { m.LocalIps[0].Probability = 5 })),
			dnatValue("a", service("10.96.0.1", 80, 4)),
			dnatValue("a", service("10.96.0.1", 80, 5)),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 5, 6), affinity)),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 5, 6, 7), affinity)),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 6), affinity)),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 6), func(m *dnatStatic) { m.TwiceNat = vpp_nat.DNat44_StaticMapping_SELF })),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 6), func(m *dnatStatic) {
				m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, "10.2.0.1"
			})),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 6), func(m *dnatStatic) {
				m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, "10.2.0.2"
			})),
			dnatValue("a", editMapping(service("10.96.0.1", 80, 6), func(m *dnatStatic) {
				m.TwiceNat, m.TwiceNatPoolIp, m.SessionAffinity = vpp_nat.DNat44_StaticMapping_ENABLED, "10.2.0.2", 60
			})),
			dnatValue("a", service("10.96.0.1", 80, 1), service("10.96.0.2", 80, 1)),
			dnatValue("a", service("10.96.0.2", 80, 1), service("10.96.0.3", 80, 1)),
			{Label: "a", IdMappings: []*dnatIdentity{{IpAddress: "10.96.0.2", Port: 80}}},
			dnatValue("a"),
		} {
			if err := v.NAT().SetDNAT(t.Context(), value); err != nil {
				t.Fatalf("%v: %v", value, err)
			}
			wantDNAT(t, v, value)
		}
	})
}

func TestDNATIsRefusedAsAWhole(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := openNAT(t, s, &vpp_nat.Nat44Global{Forwarding: true})
		first := dnatValue("first", service("10.96.0.1", 80, 1, 2))
		if err := v.NAT().SetDNAT(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		foreign := &nat44_ed.Nat44AddDelStaticMappingV2{
			IsAdd: true, Flags: nat_types.NAT_IS_ADDR_ONLY | nat_types.NAT_IS_OUT2IN_ONLY, ExternalIPAddress: [4]byte{10, 96, 0, 9}, LocalIPAddress: [4]byte{10, 1, 0, 9}, ExternalSwIfIndex: ^ownership.Index(0), Tag: "first",
		}
		if err := v.vpp.Call(t.Context(), session.Core, foreign, &nat44_ed.Nat44AddDelStaticMappingV2Reply{}); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			values []*vpp_nat.DNat44
			want   string
		}{
			"of another value":  {[]*vpp_nat.DNat44{dnatValue("b", service("10.96.0.2", 80, 1), service("10.96.0.1", 80, 1))}, `"first"`},
			"of two values":     {[]*vpp_nat.DNat44{dnatValue("b", service("10.96.0.2", 80, 1)), dnatValue("c", service("10.96.0.2", 80, 1))}, "10.96.0.2"},
			"foreign mapping":   {[]*vpp_nat.DNat44{dnatValue("b", service("10.96.0.2", 80, 1), &dnatStatic{ExternalIp: "10.96.0.9", LocalIps: []*dnatLocal{{LocalIp: "10.1.0.5"}}})}, "another owner"},
			"ICMP only":         {[]*vpp_nat.DNat44{dnatValue("b", &dnatStatic{ExternalIp: "10.96.0.2", Protocol: vpp_nat.DNat44_ICMP, LocalIps: []*dnatLocal{{LocalIp: "10.1.0.5"}}})}, "ICMP"},
			"unknown interface": {[]*vpp_nat.DNat44{dnatValue("b", editMapping(service("", 80, 1), func(m *dnatStatic) { m.ExternalInterface = "nobody" }))}, "nobody"},
		} {
			if err := v.NAT().SetDNAT(t.Context(), test.values...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
			}
		}
		wantDNAT(t, v, first)
		if err := v.NAT().RemoveDNAT(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		left, err := session.Dump[nat44_ed.Nat44StaticMappingDetails](t.Context(), v.vpp, session.Core, &nat44_ed.Nat44StaticMappingDump{})
		if err != nil || len(left) != 1 {
			t.Errorf("the foreign mapping: %v, %v", left, err)
		}
	})
}

func TestDNATThatVPPRefusesIsTakenBack(t *testing.T) {
	s := &site{}
	onEachVPP(t, func(t *testing.T, each *site) {
		if s = each; s.server == nil {
			t.Skip("a real VPP refuses nothing at command")
		}
		v := openNAT(t, s, &vpp_nat.Nat44Global{})
		before := []*vpp_nat.DNat44{dnatValue("a", service("10.96.0.1", 80, 1, 2)), dnatValue("b", service("10.96.0.2", 80, 1))}
		if err := v.NAT().SetDNAT(t.Context(), before...); err != nil {
			t.Fatal(err)
		}
		s.server.Refuse("nat44_add_del_identity_mapping", api.INVALID_VALUE)
		err := v.NAT().SetDNAT(t.Context(), dnatValue("a", service("10.96.0.1", 80, 3), service("10.96.0.3", 80, 4)),
			&vpp_nat.DNat44{Label: "b", IdMappings: []*dnatIdentity{{IpAddress: "10.96.0.2"}}})
		if err == nil {
			t.Error("no error")
		}
		wantDNAT(t, v, before...)
	})
}

func TestExternalInterfacesStandForTheirAddresses(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := openNAT(t, s, &vpp_nat.Nat44Global{})
		port := loopback("port")
		port.IpAddresses = []string{"10.0.1.1/24", "10.0.2.1/24"}
		create(t, v, port)
		value := dnatValue("a", editMapping(service("", 80, 1), func(m *dnatStatic) { m.ExternalInterface = "port" }))
		value.IdMappings = []*dnatIdentity{{Interface: "port", Port: 4789, Protocol: vpp_nat.DNat44_UDP}}
		if err := v.NAT().SetDNAT(t.Context(), value); err != nil {
			t.Fatal(err)
		}
		found, err := v.NAT().ListDNAT(t.Context(), []*vpp_nat.DNat44{value})
		wantFound(t, found, err, value)
		all, err := v.NAT().ListDNAT(t.Context(), nil)
		if err != nil || len(all) != 1 || len(all[0].GetStMappings())+len(all[0].GetIdMappings()) != 4 {
			t.Errorf("mappings: %v, %v", all, err)
		}
		if err := v.Interfaces().DeleteAddress(t.Context(), "port", netip.MustParsePrefix("10.0.2.1/24")); err != nil {
			t.Fatal(err)
		}
		if found, err = v.NAT().ListDNAT(t.Context(), []*vpp_nat.DNat44{value}); err != nil || len(found) != 1 || proto.Equal(found[0], value) {
			t.Errorf("found %v (%v), want something else than expected", found, err)
		}
		if err := v.NAT().SetDNAT(t.Context(), value); err != nil {
			t.Fatal(err)
		}
		found, err = v.NAT().ListDNAT(t.Context(), []*vpp_nat.DNat44{value})
		wantFound(t, found, err, value)
	})
}

func TestNATIsReadBackAsConfigured(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		listed := []*vpp_nat.Nat44Global_Interface{{Name: "d", IsInside: true}, {Name: "d"}, {Name: "e", OutputFeature: true}}
		addrs := []*vpp_nat.Nat44Global_Address{{Address: "10.3.0.1"}, {Address: "10.3.0.2", TwiceNat: true}}
		globalOf := func() *vpp_nat.Nat44Global {
			return &vpp_nat.Nat44Global{
				Forwarding: true, VirtualReassembly: &vpp_nat.VirtualReassembly{Timeout: 5, MaxReassemblies: 2048, MaxFragments: 7},
				NatInterfaces: listed, AddressPool: addrs, TcpSessionTimeout: 7200, OtherSessionTimeout: 90,
			}
		}
		global := globalOf()
		ifaces := []*vpp_nat.Nat44Interface{
			{Name: "a", NatInside: true, NatOutside: true}, {Name: "b", NatInside: true}, {Name: "c", NatOutside: true, OutputFeature: true},
		}
		pools := []*vpp_nat.Nat44AddressPool{
			{FirstIp: "10.4.0.1", LastIp: "10.4.0.3", VrfId: vswitch.AllVRFs}, {Name: "twice", FirstIp: "10.4.0.2", TwiceNat: true}, {FirstIp: "10.5.0.1", VrfId: 7},
		}
		tables := []*vpp_nat.Nat44VrfTable{{SrcVrfId: 1, DestVrfIds: []uint32{2, 3}}, {SrcVrfId: 4}}
		routes := []*vpp_nat.Nat44VrfRoute{{SrcVrfId: 1, DestVrfId: 5}, {SrcVrfId: 4, DestVrfId: 6}, {SrcVrfId: 4, DestVrfId: 7}}
		v := open(t, s)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			create(t, v, loopback(name))
		}
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		if g, err := v.NAT().Global(ctx, global); err != nil || g != nil {
			t.Errorf("NAT is on: %v, %v", g, err)
		}
		if err := v.NAT().AddInterface(ctx, ifaces[0]); err == nil || !strings.Contains(err.Error(), "NAT is off") {
			t.Errorf("got %v, want that NAT is off", err)
		}
		for range 2 {
			must(v.NAT().Enable(ctx, global))
			for _, i := range listed {
				must(v.NAT().AddGlobalInterface(ctx, i))
			}
			for _, a := range addrs {
				must(v.NAT().AddGlobalAddress(ctx, a))
			}
			for _, i := range ifaces {
				must(v.NAT().AddInterface(ctx, i))
			}
			for _, p := range pools {
				must(v.NAT().AddPool(ctx, p))
			}
			for _, table := range tables {
				must(v.NAT().AddVRFTable(ctx, table))
			}
			for _, r := range routes {
				must(v.NAT().AddVRFRoute(ctx, r))
			}
		}
		v.Close()
		v = open(t, s)
		check := func() {
			t.Helper()
			g, err := v.NAT().Global(ctx, global)
			wantFound(t, []*vpp_nat.Nat44Global{g}, err, global)
			foundIfaces, err := v.NAT().ListInterfaces(ctx, ifaces)
			wantFound(t, foundIfaces, err, ifaces...)
			foundPools, err := v.NAT().ListPools(ctx, pools)
			wantFound(t, foundPools, err, pools...)
			foundTables, err := v.NAT().ListVRFTables(ctx, tables)
			wantFound(t, foundTables, err, tables...)
			foundRoutes, err := v.NAT().ListVRFRoutes(ctx, routes)
			wantFound(t, foundRoutes, err, routes...)
		}
		check()
		for range 2 {
			must(v.NAT().RemoveVRFRoute(ctx, routes[1]))
		}
		routes = append(routes[:1], routes[2])
		for _, sides := range []*vpp_nat.Nat44Interface{
			{Name: "a", NatOutside: true}, {Name: "a", NatInside: true, OutputFeature: true}, {Name: "a", NatInside: true},
		} {
			must(v.NAT().AddInterface(ctx, sides))
			ifaces[0] = sides
			check()
		}
		must(v.NAT().RemoveGlobalInterface(ctx, listed[0]))
		must(v.NAT().RemoveGlobalAddress(ctx, addrs[1]))
		listed, addrs = listed[1:], addrs[:1]
		global = globalOf()
		check()
		for range 2 {
			must(v.NAT().RemoveInterface(ctx, ifaces[0]))
			must(v.NAT().RemovePool(ctx, pools[0]))
			must(v.NAT().RemoveVRFTable(ctx, tables[0]))
		}
		ifaces, pools, tables, routes = ifaces[1:], pools[1:], tables[1:], routes[1:]
		check()
		if err := v.NAT().SetDNAT(ctx, someDNAT()...); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			must(v.NAT().Disable(ctx))
			must(v.NAT().RemoveInterface(ctx, ifaces[0]))
			must(v.NAT().RemoveDNAT(ctx, someDNAT()...))
			must(v.NAT().RemovePool(ctx, pools[0]))
		}
		if g, err := v.NAT().Global(ctx, global); err != nil || g != nil {
			t.Errorf("NAT is on: %v, %v", g, err)
		}
		must(v.NAT().Enable(ctx, &vpp_nat.Nat44Global{}))
		foundPools, err := v.NAT().ListPools(ctx, nil)
		wantFound(t, foundPools, err)
		wantDNAT(t, v)
	})
}

func TestEndpointIndependentNATIsUnsupported(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		err := open(t, s).NAT().Enable(t.Context(), &vpp_nat.Nat44Global{EndpointIndependent: true})
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
	})
}
