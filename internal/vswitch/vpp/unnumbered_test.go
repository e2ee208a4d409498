package vpp

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
)

// speaksIPv6 reports whether an interface has the link-local address that neighbour discovery
// needs.
func speaksIPv6(t testing.TB, v *VSwitch, name string) bool {
	t.Helper()
	i, err := v.ifs.Index(t.Context(), name)
	must(t, err)
	err = v.vpp.Call(t.Context(), session.Core, &ip.SwInterfaceIP6GetLinkLocalAddress{SwIfIndex: i}, &ip.SwInterfaceIP6GetLinkLocalAddressReply{})
	if vppapi.Refused(err, api.IP6_NOT_ENABLED) {
		return false
	}
	must(t, err)
	return true
}

func TestUnnumberedInterfacesSpeakIPv6IfTheirLenderDoes(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		gateway, gateway6, pod := loopback("gateway"), loopback("gateway6"), loopback("pod")
		gateway.IpAddresses, gateway6.IpAddresses = []string{"10.1.1.1/24"}, []string{"10.1.2.1/24", "fd00:2::1/64"}
		create(t, v, gateway, gateway6, pod)
		want := func(when string, speaks bool) {
			t.Helper()
			if speaksIPv6(t, v, "pod") != speaks {
				t.Errorf("%s: speaks IPv6: %v", when, !speaks)
			}
		}
		port := v.Interfaces()
		for range 2 {
			must(t, port.SetUnnumbered(t.Context(), "pod", "gateway"))
			want("the lender has IPv4 only", false)
		}
		must(t, port.AddAddress(t.Context(), "gateway", netip.MustParsePrefix("fd00:1::1/64")))
		want("the lender has got an IPv6 address", true)
		for range 2 {
			must(t, port.SetUnnumbered(t.Context(), "pod", "gateway6"))
			want("another lender with IPv6", true)
		}
		for range 2 {
			must(t, port.UnsetUnnumbered(t.Context(), "pod"))
			want("without a lender", false)
		}
		must(t, port.SetUnnumbered(t.Context(), "pod", "gateway6"))
		own := netip.MustParsePrefix("fd00:3::1/64")
		must(t, port.AddAddress(t.Context(), "pod", own))
		must(t, port.UnsetUnnumbered(t.Context(), "pod"))
		want("with an address of its own", true)
		must(t, port.DeleteAddress(t.Context(), "pod", own))
		must(t, port.SetUnnumbered(t.Context(), "pod", "gateway6"))
		must(t, port.UnsetUnnumbered(t.Context(), "pod"))
	})
}
