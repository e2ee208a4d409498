package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	"go.fd.io/govpp/binapi/ip_types"
	"google.golang.org/protobuf/proto"
)

type (
	mapping66 = contiv_nat.DNat66_StaticMapping
	local66   = contiv_nat.DNat66_StaticMapping_LocalIP
)

const self66 = contiv_nat.DNat66_StaticMapping_SELF

func dnat66Value(label string, mappings ...*mapping66) *contiv_nat.DNat66 {
	return &contiv_nat.DNat66{Label: label, StMappings: mappings}
}

// service66 maps a port to local addresses fd10::1 and so on with the weights.
func service66(addr string, port uint32, weights ...uint32) *mapping66 {
	m := &mapping66{ExternalIp: addr, ExternalPort: port}
	for i, weight := range weights {
		m.LocalIps = append(m.LocalIps, &local66{LocalIp: "fd10::" + string(rune('1'+i)), LocalPort: 8080, Probability: weight})
	}
	return m
}

func edit66(m *mapping66, edit func(*mapping66)) *mapping66 {
	edit(m)
	return m
}

func sticky66(m *mapping66) { m.SessionAffinity = 10800 }

func toItself66(m *mapping66) { m.TwiceNat, m.TwiceNatIp = self66, "fd10::fffe" }

func some66() []*contiv_nat.DNat66 {
	return []*contiv_nat.DNat66{
		dnat66Value("default/web", service66("fd96::1", 80, 1), edit66(service66("fd96::1", 80, 1, 2, 3), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP }),
			edit66(service66("fd96::1", 443, 1, 1, 0), sticky66)),
		dnat66Value(strings.Repeat("a long name ", 12), edit66(service66("fd96::2", 80, 1000, 1), toItself66)),
		dnat66Value("both", edit66(edit66(service66("fd96::3", 80, 1, 2), toItself66), sticky66)),
		dnat66Value("nothing"),
	}
}

func set66(t testing.TB, v *VSwitch, values ...*contiv_nat.DNat66) {
	t.Helper()
	if err := v.DNAT66().Set(t.Context(), values...); err != nil {
		t.Fatal(err)
	}
}

// wantDNAT66 also checks that each unexpected value is found under its label.
func wantDNAT66(t testing.TB, v *VSwitch, want ...*contiv_nat.DNat66) {
	t.Helper()
	found, err := v.DNAT66().List(t.Context(), want)
	wantFound(t, found, err, want...)
	found, err = v.DNAT66().List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range found {
		count[f.GetLabel()] = len(f.GetStMappings())
	}
	for _, w := range want {
		if count[w.GetLabel()] != len(w.GetStMappings()) {
			t.Errorf("%q has %d mappings when it is not expected, want %d", w.GetLabel(), count[w.GetLabel()], len(w.GetStMappings()))
		}
	}
}

func TestDNAT66IsReadBackAsSet(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"))
		values := some66()
		for range 2 {
			set66(t, v, values...)
			wantDNAT66(t, v, values...)
		}
		if n, err := v.NATSessions(t.Context()); n != 0 || err != nil {
			t.Errorf("%d sessions without packets, %v", n, err)
		}
		v.Close()
		v = open(t, s)
		wantDNAT66(t, v, values...)
		create(t, v, loopback("two")) // has the features at once
		wantDNAT66(t, v, values...)
		for range 2 {
			if err := v.DNAT66().Remove(t.Context(), values[:2]...); err != nil {
				t.Fatal(err)
			}
			found, err := v.DNAT66().List(t.Context(), values[2:])
			wantFound(t, found, err, values[2:]...)
		}
		found, err := v.DNAT66().List(t.Context(), nil)
		if err != nil || len(found) != 1 || found[0].GetLabel() != "both" {
			t.Fatalf("found %v, %v", found, err)
		}
		got := found[0].GetStMappings()[0]
		if want := values[2].GetStMappings()[0]; !proto.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
		if err := v.DNAT66().Remove(t.Context(), found...); err != nil {
			t.Fatal(err)
		}
		wantDNAT66(t, v)
	})
}

func TestDNAT66Changes(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"))
		for _, value := range []*contiv_nat.DNat66{
			dnat66Value("a", service66("fd96::1", 80, 1)),
			dnat66Value("a", service66("fd96::1", 80, 1, 1, 1)),
			dnat66Value("a", service66("fd96::1", 80, 1, 5)),
			dnat66Value("a", edit66(service66("fd96::1", 80, 1, 5), sticky66)),
			dnat66Value("a", edit66(service66("fd96::1", 80, 1), sticky66)),
			dnat66Value("a", edit66(service66("fd96::1", 80, 1, 1), toItself66)),
			dnat66Value("a", edit66(service66("fd96::1", 80, 1, 1), func(m *mapping66) { m.TwiceNat, m.TwiceNatIp = self66, "fd10::ffff" })),
			dnat66Value("a", service66("fd96::1", 80, 1), service66("fd96::2", 80, 1)),
			dnat66Value("a", service66("fd96::2", 80, 1), service66("fd96::3", 80, 1)),
			dnat66Value("a", edit66(service66("fd96::2", 80, 1), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP })),
			dnat66Value("a"),
		} {
			set66(t, v, value)
			wantDNAT66(t, v, value)
		}
	})
}

func TestDNAT66IsRefusedAsAWhole(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		first := dnat66Value("first", service66("fd96::1", 80, 1, 1))
		set66(t, v, first)
		foreign := &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{
			Vip: cnatEndpoint(netip.MustParseAddrPort("[fd96::9]:80")), IPProto: ip_types.IP_API_PROTO_TCP,
			Paths: []cnat.CnatEndpointTuple{{DstEp: cnatEndpoint(netip.MustParseAddrPort("[fd10::9]:80")), SrcEp: cnatEndpoint(netip.MustParseAddrPort("[::]:0"))}},
		}}
		if err := v.vpp.Call(t.Context(), session.Core, foreign, &cnat.CnatTranslationUpdateReply{}); err != nil {
			t.Fatal(err)
		}
		wantDNAT66(t, v, first) // this resync detects foreign translations
		for name, test := range map[string]struct {
			values      []*contiv_nat.DNat66
			want        string
			unsupported bool
		}{
			"of another value":    {[]*contiv_nat.DNat66{dnat66Value("b", service66("fd96::2", 80, 1), service66("fd96::1", 80, 1))}, `"first"`, false},
			"of two values":       {[]*contiv_nat.DNat66{dnat66Value("b", service66("fd96::2", 80, 1)), dnat66Value("c", service66("fd96::2", 80, 1))}, "fd96::2", false},
			"foreign translation": {[]*contiv_nat.DNat66{dnat66Value("b", service66("fd96::2", 80, 1), service66("fd96::9", 80, 1))}, "foreign translation", false},
			"SCTP":                {[]*contiv_nat.DNat66{dnat66Value("b", edit66(service66("fd96::2", 80, 1), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_SCTP }))}, "SCTP", true},
			"twice-NAT of all": {[]*contiv_nat.DNat66{dnat66Value("b", edit66(service66("fd96::2", 80, 1), func(m *mapping66) {
				m.TwiceNat, m.TwiceNatIp = contiv_nat.DNat66_StaticMapping_ENABLED, "fd10::fffe"
			}))}, "ENABLED", true},
		} {
			err := v.DNAT66().Set(t.Context(), test.values...)
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, kvscheduler.ErrUnsupported) != test.unsupported {
				t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
			}
		}
		wantDNAT66(t, v, first)
		if err := v.DNAT66().Remove(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if left := translations(t, v, false); len(left) != 1 {
			t.Errorf("the foreign translation: %v", left)
		}
	})
}

// translations returns VPP's translations that pin backends, or all others.
func translations(t testing.TB, v *VSwitch, holding bool) (list []cnat.CnatTranslation) {
	t.Helper()
	all, err := session.Dump[cnat.CnatTranslationDetails](t.Context(), v.vpp, session.Core, &cnat.CnatTranslationDump{})
	must(t, err)
	for _, d := range all {
		if vip := convert.Addr(d.Translation.Vip.Addr).String(); (vip == "100::2" || vip == "192.0.0.171") == holding {
			list = append(list, d.Translation)
		}
	}
	return list
}

// Backends of existing connections stay in the FIB after they leave services, and so do a few idle
// backends.
func TestBackendsAreHeld(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		held := func() map[netip.Addr]int {
			count := map[netip.Addr]int{}
			for _, h := range translations(t, v, true) {
				for _, p := range h.Paths {
					count[convert.Addr(p.DstEp.Addr)]++
				}
			}
			return count
		}
		// Their packets to VPP pass the reverse path check meanwhile.
		accepted := func(backend string) bool {
			text, err := v.vpp.CLI(t.Context(), "show ip6 fib index 0 "+backend+"/128")
			must(t, err)
			return strings.Contains(text, "urpf-exempt")
		}
		require := func(backends ...string) {
			t.Helper()
			now := held()
			for _, b := range []string{"fd10::1", "fd10::2", "fd10::3", "fd10::1:c7"} {
				if accepted(b) != slices.Contains(backends, b) {
					t.Errorf("%s, of the held %v, is accepted: %v", b, backends, accepted(b))
				}
			}
			for _, b := range backends {
				if now[netip.MustParseAddr(b)] != 1 {
					t.Errorf("held: %v, want %s once", now, b)
				}
			}
			if len(now) != len(backends) {
				t.Errorf("held: %v, want %v", now, backends)
			}
		}
		set66(t, v, dnat66Value("a", service66("fd96::1", 80, 1, 1), service66("fd96::1", 443, 1)))
		require("fd10::1", "fd10::2")
		set66(t, v, dnat66Value("a", service66("fd96::1", 80, 1)), dnat66Value("b", service66("fd96::2", 80, 1, 1, 1)))
		require("fd10::1", "fd10::2", "fd10::3")
		must(t, v.DNAT66().Remove(t.Context(), dnat66Value("b")))
		require("fd10::1", "fd10::2", "fd10::3")
		value := dnat66Value("a", service66("fd96::1", 80, 1))
		for n := range 200 {
			value.GetStMappings()[0].GetLocalIps()[0].LocalIp = fmt.Sprintf("fd10::1:%x", n)
			set66(t, v, value)
		}
		now := held()
		if last := netip.MustParseAddr("fd10::1:c7"); now[last] != 1 || len(now) > 70 {
			t.Errorf("%d are held, among them the last one %d times: %v", len(now), now[last], now)
		}
		v = open(t, s) // after a restart of the agent
		wantDNAT66(t, v, value)
		set66(t, v, value)
		must(t, v.DNAT66().Remove(t.Context(), value))
		require()
	})
}

// Earlier agents pinned backends with port 0, without the exemption. The first resync after an
// upgrade adds the exemption.
func TestBackendsThatAnOlderAgentHolds(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"))
		value := dnat66Value("a", service66("fd96::1", 80, 1, 1))
		set66(t, v, value)
		for _, h := range translations(t, v, true) {
			for i, p := range h.Paths {
				h.Paths[i].DstEp.Port = 0
				_, err := v.vpp.CLI(t.Context(), "set urpf-accept del "+convert.Addr(p.DstEp.Addr).String()+"/128")
				must(t, err)
			}
			must(t, change(t, v, &cnat.CnatTranslationUpdate{Translation: h}))
		}
		v = open(t, s)
		if found, err := v.DNAT66().List(t.Context(), []*contiv_nat.DNat66{value}); err != nil || len(found) > 0 { // otherwise it would not be set again
			t.Errorf("found %v, %v", found, err)
		}
		set66(t, v, value)
		wantDNAT66(t, v, value)
		for _, b := range []string{"fd10::1", "fd10::2"} {
			if text, err := v.vpp.CLI(t.Context(), "show ip6 fib index 0 "+b+"/128"); err != nil || !strings.Contains(text, "urpf-exempt") {
				t.Errorf("%s does not pass the check of the reverse path: %v: %s", b, err, text)
			}
		}
		before := len(translations(t, v, true))
		v = open(t, s)
		wantDNAT66(t, v, value) // nothing is left to do
		set66(t, v, value)
		if now := len(translations(t, v, true)); now != before {
			t.Errorf("%d translations hold backends, %d before", now, before)
		}
		must(t, v.DNAT66().Remove(t.Context(), value))
		if left := translations(t, v, true); len(left) > 0 {
			t.Errorf("translations still hold backends: %+v", left)
		}
	})
}

func change(t testing.TB, v *VSwitch, req api.Message) error {
	replies := map[string]api.Message{
		"feature_enable_disable": &feature.FeatureEnableDisableReply{}, "cnat_set_snat_addresses": &cnat.CnatSetSnatAddressesReply{},
		"cnat_translation_update": &cnat.CnatTranslationUpdateReply{},
	}
	return v.vpp.Call(t.Context(), session.Core, req, replies[req.GetMessageName()])
}

func TestDNAT66AndRoutesToTheSameAddress(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		port := loopback("one")
		port.IpAddresses = []string{"fd10::9/64"}
		create(t, v, port)
		hidden := &vpp_l3.Route{DstNetwork: "fd96::1/128", NextHopAddr: "fd10::1", OutgoingInterface: "one"}
		must(t, v.Routes().Create(t.Context(), hidden))
		value := dnat66Value("a", service66("fd96::1", 80, 1), service66("fd10::9", 80, 1))
		if err := v.DNAT66().Set(t.Context(), value); err == nil || !strings.Contains(err.Error(), "route to exactly fd96::1") {
			t.Errorf("got %v", err)
		}
		wantDNAT66(t, v)
		must(t, v.Routes().Delete(t.Context(), hidden))
		set66(t, v, value)
		wantDNAT66(t, v, value)
		if err := v.Routes().Create(t.Context(), hidden); err == nil || !strings.Contains(err.Error(), `source "cnat"`) {
			t.Errorf("got %v", err)
		}
		around := &vpp_l3.Route{DstNetwork: "fd96::/64", NextHopAddr: "fd10::1", OutgoingInterface: "one", Weight: 1}
		must(t, v.Routes().Create(t.Context(), around))
		found, err := v.Routes().List(t.Context(), []*vpp_l3.Route{around})
		wantFound(t, found, err, around)
		must(t, v.DNAT66().Remove(t.Context(), value))
		must(t, v.Routes().Create(t.Context(), hidden))
	})
}

// External clients with visible addresses have cnat entries, like services. Routes to such
// addresses are still listed.
func TestRoutesToClientsOfServices(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		port := loopback("one")
		port.IpAddresses = []string{"fd10::9/64"}
		create(t, v, port)
		client := &vpp_l3.Route{DstNetwork: "fd99::1/128", NextHopAddr: "fd10::1", OutgoingInterface: "one", Weight: 1}
		must(t, v.Routes().Create(t.Context(), client))
		must(t, change(t, v, &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{
			Vip: cnatEndpoint(netip.MustParseAddrPort("[fd99::1]:80")), IPProto: ip_types.IP_API_PROTO_TCP, IsRealIP: 1,
			Paths: []cnat.CnatEndpointTuple{{DstEp: cnatEndpoint(netip.MustParseAddrPort("[fd10::9]:80")), SrcEp: cnatEndpoint(netip.MustParseAddrPort("[::]:0"))}},
		}}))
		found, err := v.Routes().List(t.Context(), []*vpp_l3.Route{client})
		wantFound(t, found, err, client)
		found, err = v.Routes().Find(t.Context(), []*vpp_l3.Route{client})
		wantFound(t, found, err, client)
		elsewhere := proto.CloneOf(client)
		elsewhere.NextHopAddr = "fd10::2"
		if found, err := v.Routes().List(t.Context(), []*vpp_l3.Route{elsewhere}); err != nil || len(found) > 0 {
			t.Errorf("another route to the address: found %v (%v)", found, err)
		}
		must(t, v.Routes().Delete(t.Context(), client))
		if found, err := v.Routes().List(t.Context(), nil); err != nil || len(found) > 0 { // although VPP keeps using its path
			t.Errorf("after it was deleted: found %v (%v)", found, err)
		}
	})
}

// The next resync repairs foreign changes.
func TestDNAT66ThatOthersChange(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"))
		value := dnat66Value("a", edit66(service66("fd96::1", 80, 1, 1), toItself66))
		set66(t, v, value)
		i, err := v.ifs.Index(t.Context(), "one")
		must(t, err)
		for _, test := range []struct {
			name string
			req  api.Message
		}{
			{"feature", &feature.FeatureEnableDisable{SwIfIndex: i, ArcName: "ip6-output", FeatureName: "cnat-output-ip6"}},
			{"source", &cnat.CnatSetSnatAddresses{SwIfIndex: ownership.NoIndex}},
			{"backends", &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{
				Vip: cnatEndpoint(netip.MustParseAddrPort("[fd96::1]:80")), IPProto: ip_types.IP_API_PROTO_TCP, IsRealIP: 1,
				Paths: []cnat.CnatEndpointTuple{{DstEp: cnatEndpoint(netip.MustParseAddrPort("[fd10::9]:80")), SrcEp: cnatEndpoint(netip.MustParseAddrPort("[::]:0"))}},
			}}},
		} {
			name := test.name
			must(t, change(t, v, test.req))
			found, err := v.DNAT66().List(t.Context(), []*contiv_nat.DNat66{value})
			if err != nil || len(found) == 1 && proto.Equal(found[0], value) {
				t.Errorf("%s: found %v (%v)", name, found, err)
			}
			set66(t, v, value)
			wantDNAT66(t, v, value)
		}
	})
}

// After a restart of VPP, interfaces get the features again.
func TestDNAT66AfterARestartOfVPP(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"))
		value := dnat66Value("a", edit66(service66("fd96::1", 80, 1, 1), toItself66))
		set66(t, v, value)
		s.Restart()
		for v.Interfaces().Create(t.Context(), loopback("one")) != nil { // until the driver has noticed
		}
		if found, err := v.DNAT66().List(t.Context(), []*contiv_nat.DNat66{value}); err != nil || len(found) > 0 {
			t.Errorf("found %v, %v", found, err)
		}
		set66(t, v, value)
		wantDNAT66(t, v, value)
	})
}

func TestDNAT66ThatVPPRefusesIsTakenBack(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		if s.server == nil {
			t.Skip("a real VPP refuses nothing at command")
		}
		v := open(t, s)
		before := dnat66Value("a", service66("fd96::1", 80, 1), service66("fd96::2", 80, 1))
		set66(t, v, before)
		s.server.Refuse("cnat_translation_del", api.INVALID_VALUE)
		if err := v.DNAT66().Set(t.Context(), dnat66Value("a", service66("fd96::1", 80, 1, 1))); err == nil {
			t.Error("no error")
		}
		wantDNAT66(t, v, before)
	})
}

func TestDNAT66WithoutThePlugin(t *testing.T) {
	for _, plugin := range []string{"cnat", "urpf"} {
		onEachVPP(t, func(t *testing.T, s *site) {
			s.Without(plugin)
			v := open(t, s)
			value := dnat66Value("a", service66("fd96::1", 80, 1))
			err := v.DNAT66().Set(t.Context(), value)
			if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), plugin+"_plugin.so") {
				t.Errorf("got %v", err)
			}
			if found, err := v.DNAT66().List(t.Context(), []*contiv_nat.DNat66{value}); err != nil || len(found) > 0 {
				t.Errorf("found %v, %v", found, err)
			}
			if err := v.DNAT66().Remove(t.Context(), value); err != nil {
				t.Error(err)
			}
			create(t, v, loopback("one"))
		})
	}
}

func cnatEndpoint(a netip.AddrPort) cnat.CnatEndpoint {
	return cnat.CnatEndpoint{Addr: convert.Address(a.Addr()), SwIfIndex: ownership.NoIndex, IfAf: ip_types.ADDRESS_IP6, Port: a.Port()}
}
