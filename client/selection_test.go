package client

import (
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
)

// Agents are queried for single keys by the names of their values.
func TestIDsOfSelections(t *testing.T) {
	route, global := models.Key(&vpp_l3.Route{DstNetwork: "10.8.0.0/16", NextHopAddr: "192.168.1.1"}), models.Key(&vpp_nat.Nat44Global{})
	ids := selection{route, global}.ids()
	if len(ids) != 2 || ids[0].GetModel() != models.VPPRoute.Name() || models.VPPRoute.KeyOfName(ids[0].GetName()) != route || ids[1].GetName() != "" {
		t.Errorf("%v", ids)
	}
	for _, all := range []selection{nil, {route, models.VPPRoute.KeyPrefix()}} {
		if ids := all.ids(); ids != nil {
			t.Errorf("%v: %v", all, ids)
		}
	}
}
