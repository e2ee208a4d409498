package vpp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/feature"
	"google.golang.org/protobuf/proto"
)

// serviceMapping maps port 80 of a cluster IP like plugin service.
func serviceMapping(protocol vpp_nat.DNat44_Protocol, locals ...string) *vpp_nat.DNat44_StaticMapping {
	m := &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.96.0.1", ExternalPort: 80, Protocol: protocol}
	if len(locals) == 0 {
		m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE
		return m
	}
	m.TwiceNat, m.TwiceNatPoolIp, m.MasqueradeOutside = vpp_nat.DNat44_StaticMapping_SELF, "10.1.1.254", true
	for _, l := range locals {
		m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: l, LocalPort: 8080, Probability: 1})
	}
	return m
}

func service44(label string, mappings ...*vpp_nat.DNat44_StaticMapping) *vpp_nat.DNat44 {
	return &vpp_nat.DNat44{Label: label, StMappings: mappings}
}

var (
	aNetwork = &contiv_nat.ServiceNetwork{
		Inside: []string{"10.1.1.0/24", "fd10::/64"}, ServiceSubnets: []string{"10.96.0.0/16", "fd96::/112"}, OutsideInterfaces: []string{"uplink"},
	}
	tcp, udp = vpp_nat.DNat44_TCP, vpp_nat.DNat44_UDP
)

// wantServices checks that values are found, each alone and with nothing expected.
func wantServices(t testing.TB, v *VSwitch, want ...*vpp_nat.DNat44) {
	t.Helper()
	found, err := v.NAT().ListDNAT(t.Context(), want)
	wantFound(t, found, err, want...)
	found, err = v.NAT().ListDNAT(t.Context(), nil)
	if err != nil || len(found) != len(want) {
		t.Errorf("found %v (%v) when nothing is expected, want %d values", found, err, len(want))
	}
}

func TestServicesAreReadBackAsSet(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		must(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
		create(t, v, loopback("one"), loopback("uplink"))
		must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
		plain := service44("plain", &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.97.0.1", ExternalPort: 80, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 80}}})
		sticky := serviceMapping(tcp, "10.1.1.2", "10.1.2.2")
		sticky.ExternalIp, sticky.SessionAffinity, sticky.ResetRemoved = "10.96.0.2", 10800, true
		values := []*vpp_nat.DNat44{
			plain, service44("default/web", serviceMapping(tcp, "10.1.1.2", "10.1.1.3"), serviceMapping(udp)), service44("default/"+strings.Repeat("long", 20), sticky),
			service44("default/none", func() *vpp_nat.DNat44_StaticMapping { m := serviceMapping(tcp); m.ExternalIp = "10.96.0.3"; return m }()),
		}
		for range 2 {
			must(t, v.NAT().SetDNAT(t.Context(), values...))
			wantServices(t, v, values...)
		}
		v.Close()
		v = open(t, s)
		found, err := v.ServiceNetworks().List(t.Context(), []*contiv_nat.ServiceNetwork{aNetwork})
		wantFound(t, found, err, aNetwork)
		wantServices(t, v, values...)
		create(t, v, loopback("two")) // has the features at once
		wantServices(t, v, values...)

		// The other plugin takes over, and back.
		both := service44("plain", serviceMapping(tcp, "10.1.1.2"))
		both.StMappings[0].ExternalIp = "10.97.0.1"
		for _, change := range []*vpp_nat.DNat44{both, plain} {
			must(t, v.NAT().SetDNAT(t.Context(), change))
			wantServices(t, v, append([]*vpp_nat.DNat44{change}, values[1:]...)...)
		}
		must(t, v.NAT().RemoveDNAT(t.Context(), values...))
		wantServices(t, v)
		must(t, v.ServiceNetworks().Delete(t.Context(), aNetwork))
		if left, err := v.ServiceNetworks().List(t.Context(), []*contiv_nat.ServiceNetwork{aNetwork}); err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	})
}

// A service in both plugins, as after a crash, is listed once as different and so is replaced.
func TestAServiceInBothPluginsIsSetAnew(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		must(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
		create(t, v, loopback("one"))
		service := service44("a", serviceMapping(tcp, "10.1.1.2"))
		plain := service44("a", &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.97.0.1", ExternalPort: 80, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 80}}})
		must(t, v.NAT().SetDNAT(t.Context(), service))
		must(t, v.nat.SetDNAT(t.Context(), plain))
		for _, expected := range []*vpp_nat.DNat44{service, plain} {
			found, err := v.NAT().ListDNAT(t.Context(), []*vpp_nat.DNat44{expected})
			if err != nil || len(found) != 1 || proto.Equal(found[0], expected) {
				t.Errorf("found %v (%v)", found, err)
			}
		}
		must(t, v.NAT().SetDNAT(t.Context(), service))
		wantServices(t, v, service)
	})
}

func TestWhatServicesCannotDoOnVPP(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		must(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
		for what, edit := range map[string]func(*vpp_nat.DNat44){
			"clients INSIDE":     func(v *vpp_nat.DNat44) { v.StMappings[0].Clients = vpp_nat.DNat44_StaticMapping_INSIDE },
			"source_ranges":      func(v *vpp_nat.DNat44) { v.StMappings[0].SourceRanges = []string{"10.0.0.0/8"} },
			"ENABLED":            func(v *vpp_nat.DNat44) { v.StMappings[0].TwiceNat = vpp_nat.DNat44_StaticMapping_ENABLED },
			"masquerade_outside": func(v *vpp_nat.DNat44) { v.StMappings[0].TwiceNatPoolIp = "" },
			"DROP": func(v *vpp_nat.DNat44) {
				v.StMappings[0].LocalIps, v.StMappings[0].Otherwise = nil, vpp_nat.DNat44_StaticMapping_DROP
			},
			"external_interface": func(v *vpp_nat.DNat44) { v.StMappings[0].ExternalInterface = "uplink" },
			"vrf_id":             func(v *vpp_nat.DNat44) { v.StMappings[0].LocalIps[0].VrfId = 7 },
			"id_mappings": func(v *vpp_nat.DNat44) {
				v.IdMappings = []*vpp_nat.DNat44_IdentityMapping{{IpAddress: "10.1.1.2"}}
			},
		} {
			value := service44("a", serviceMapping(tcp, "10.1.1.2"))
			edit(value)
			err := v.NAT().SetDNAT(t.Context(), value)
			if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), strings.Fields(what)[0]) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		wantServices(t, v)
	})
}

// The next resync repairs foreign changes.
func TestServiceNetworksThatOthersChange(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("one"), loopback("uplink"))
		expected := []*contiv_nat.ServiceNetwork{aNetwork}
		must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
		routes, err := v.Routes().List(t.Context(), []*vpp_l3.Route{})
		if err != nil || len(routes) > 0 {
			t.Errorf("routes are found as values: %v (%v)", routes, err)
		}
		changes := map[string]func(){
			"a feature of an interface outside": func() {
				i, err := v.ifs.Index(t.Context(), "uplink")
				must(t, err)
				must(t, v.vpp.Call(t.Context(), session.Core, &feature.FeatureEnableDisable{SwIfIndex: i, Enable: true, ArcName: "ip4-unicast", FeatureName: "cnat-input-ip4"}, &feature.FeatureEnableDisableReply{}))
			},
			"a route": func() {
				must(t, v.routes.SetRefused(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.0.170/32"), netip.MustParsePrefix("10.96.0.0/16")}))
			},
		}
		for what, change := range changes {
			change()
			found, err := v.ServiceNetworks().List(t.Context(), expected)
			if err != nil || len(found) != 1 || proto.Equal(found[0], aNetwork) {
				t.Errorf("%s: found %v (%v)", what, found, err)
			}
			must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
			found, err = v.ServiceNetworks().List(t.Context(), expected)
			wantFound(t, found, err, aNetwork)
		}
	})
}
