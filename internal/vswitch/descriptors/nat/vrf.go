package nat

import (
	"fmt"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// natVRFTableDescriptor handles config/vpp/nat/v2/nat44-vrf/vrfid/{src}.
func natVRFTableDescriptor(port vswitch.NATVRFs) kvscheduler.Descriptor[*vpp_nat.Nat44VrfTable, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44VrfTable, descriptor.NoMeta]{
		Name: vswitch.NATVRFTableDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.NAT44VRFTable.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, t *vpp_nat.Nat44VrfTable) error {
			ids := slices.Sorted(slices.Values(t.GetDestVrfIds()))
			if len(slices.Compact(ids)) < len(t.GetDestVrfIds()) {
				return descriptor.Invalid("dest_vrf_ids", "a VRF is in the list twice")
			}
			return nil
		},
		Equivalent: func(_ string, old, new *vpp_nat.Nat44VrfTable) bool {
			return slices.Equal(slices.Sorted(slices.Values(old.GetDestVrfIds())), slices.Sorted(slices.Values(new.GetDestVrfIds())))
		},
		Create:        descriptor.Create(port.AddVRFTable),
		Delete:        descriptor.Delete(port.RemoveVRFTable),
		Retrieve:      descriptor.Retrieve(port.ListVRFTables),
		RetrieveAfter: []string{vswitch.NATGlobalDescriptor},
		Dependencies: func(_ string, t *vpp_nat.Nat44VrfTable) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{natEnabled}
			for _, vrf := range append([]uint32{t.GetSrcVrfId()}, t.GetDestVrfIds()...) {
				if vrf != t.GetSrcVrfId() || len(deps) == 1 {
					deps = append(deps, natVRFExists(fmt.Sprintf("vrf-table-exists-%d", vrf), vrf)...)
				}
			}
			return deps
		},
	}
}

// natVRFRouteDescriptor handles config/vpp/nat/v2/nat44-vrf-route/vrfid/{src}/destvrfid/{dst}.
func natVRFRouteDescriptor(port vswitch.NATVRFs) kvscheduler.Descriptor[*vpp_nat.Nat44VrfRoute, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44VrfRoute, descriptor.NoMeta]{
		Name:          vswitch.NATVRFRouteDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.NAT44VRFRoute.KeyPrefix()},
		NB:            true,
		Create:        descriptor.Create(port.AddVRFRoute),
		Delete:        descriptor.Delete(port.RemoveVRFRoute),
		Retrieve:      descriptor.Retrieve(port.ListVRFRoutes),
		RetrieveAfter: []string{vswitch.NATVRFTableDescriptor},
		Dependencies: func(_ string, r *vpp_nat.Nat44VrfRoute) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{
				Label: "vrf-table-exists", Key: models.Key(&vpp_nat.Nat44VrfTable{SrcVrfId: r.GetSrcVrfId()}),
			}}
		},
	}
}
