package kernel

import (
	"context"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/vswitch"
)

// vrfs: only tables 0, which are the main table, and always there.
type vrfs struct{ *VSwitch }

func (v vrfs) Create(_ context.Context, table *vpp_l3.VrfTable) error {
	if table.GetId() != 0 {
		return noVRF(table.GetId())
	}
	return noFlowHash(table)
}

func (v vrfs) Update(_ context.Context, _, new *vpp_l3.VrfTable) error { return noFlowHash(new) }

func noFlowHash(table *vpp_l3.VrfTable) error {
	if table.GetFlowHashSettings() != nil {
		return vswitch.Unsupported("flow_hash_settings: set the sysctl net.ipv4.fib_multipath_hash_policy on the host")
	}
	return nil
}

// Delete has nothing to reset.
func (v vrfs) Delete(context.Context, *vpp_l3.VrfTable) error { return nil }

func (v vrfs) List(_ context.Context, expected []*vpp_l3.VrfTable) (list []*vpp_l3.VrfTable, err error) {
	for _, table := range expected {
		if table.GetId() == 0 && table.GetFlowHashSettings() == nil {
			list = append(list, table)
		}
	}
	return list, nil
}
