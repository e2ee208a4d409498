package l3

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// teibDescriptor handles config/vpp/v2/teib/{if}/peer/{addr}.
func teibDescriptor() kvscheduler.Descriptor[*vpp_l3.TeibEntry, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.TeibEntry, descriptor.NoMeta]{
		Name:     vswitch.TEIBDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.TEIB.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, e *vpp_l3.TeibEntry) error { return validateTEIB(e) },
		Equivalent: func(_ string, a, b *vpp_l3.TeibEntry) bool {
			return a.GetInterface() == b.GetInterface() && a.GetVrfId() == b.GetVrfId() &&
				descriptor.SameAddrText(a.GetPeerAddr(), b.GetPeerAddr()) && descriptor.SameAddrText(a.GetNextHopAddr(), b.GetNextHopAddr())
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.VRFTableDescriptor},
		Dependencies: func(_ string, e *vpp_l3.TeibEntry) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(e.GetInterface())}}
			if vrf := e.GetVrfId(); vrf != 0 {
				deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-exists", Key: models.VRFTableKey(vrf, descriptor.IsIPv6(e.GetNextHopAddr()))})
			}
			return deps
		},
	}
}

func validateTEIB(e *vpp_l3.TeibEntry) error {
	return descriptor.FirstError(
		descriptor.Required("interface", e.GetInterface(), "name the tunnel interface"),
		descriptor.ValidAddr("peer_addr", e.GetPeerAddr()),
		descriptor.ValidAddr("next_hop_addr", e.GetNextHopAddr()),
	)
}
