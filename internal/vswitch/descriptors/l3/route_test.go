package l3

import (
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
)

func TestRouteValidation(t *testing.T) {
	route := func(r *vpp_l3.Route) error { return validateRoute(r) }
	descriptortest.WantInvalid(t, "route", route(&vpp_l3.Route{DstNetwork: "10.0.0.0/8", OutgoingInterface: "x"}), "")
	descriptortest.WantInvalid(t, "drop", route(&vpp_l3.Route{DstNetwork: "10.0.0.0/8", Type: vpp_l3.Route_DROP}), "")
	descriptortest.WantInvalid(t, "host bits", route(&vpp_l3.Route{DstNetwork: "10.0.0.1/8", OutgoingInterface: "x"}), "dst_network")
	descriptortest.WantInvalid(t, "nowhere", route(&vpp_l3.Route{DstNetwork: "10.0.0.0/8"}), "next_hop_addr")
	for _, none := range []string{"", "0.0.0.0", "::"} {
		for _, dst := range []string{"10.0.0.0/8", "fd00::/8"} {
			descriptortest.WantInvalid(t, "next hop "+none, route(&vpp_l3.Route{DstNetwork: dst, NextHopAddr: none, OutgoingInterface: "x"}), "")
			descriptortest.WantInvalid(t, "only next hop "+none, route(&vpp_l3.Route{DstNetwork: dst, NextHopAddr: none}), "next_hop_addr")
		}
	}
	descriptortest.WantInvalid(t, "mixed", route(&vpp_l3.Route{DstNetwork: "10.0.0.0/8", NextHopAddr: "fd00::1"}), "next_hop_addr")
}
