package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// teibDescriptor handles config/vpp/v2/teib/{if}/peer/{addr}.
func teibDescriptor() kvscheduler.Descriptor[*vpp_l3.TeibEntry, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.TeibEntry, noMeta]{
		Name:     TEIBDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.TEIB.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, e *vpp_l3.TeibEntry) error { return validateTEIB(e) },
		Equivalent: func(_ string, a, b *vpp_l3.TeibEntry) bool {
			return a.GetInterface() == b.GetInterface() && a.GetVrfId() == b.GetVrfId() &&
				sameAddrText(a.GetPeerAddr(), b.GetPeerAddr()) && sameAddrText(a.GetNextHopAddr(), b.GetNextHopAddr())
		},
		RetrieveAfter: []string{InterfaceDescriptor, VRFTableDescriptor},
		Dependencies: func(_ string, e *vpp_l3.TeibEntry) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(e.GetInterface())}}
			if vrf := e.GetVrfId(); vrf != 0 {
				deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-exists", Key: models.VRFTableKey(vrf, isIPv6(e.GetNextHopAddr()))})
			}
			return deps
		},
	}
}

func validateTEIB(e *vpp_l3.TeibEntry) error {
	return firstError(
		required("interface", e.GetInterface(), "name the tunnel interface"),
		validAddr("peer_addr", e.GetPeerAddr()),
		validAddr("next_hop_addr", e.GetNextHopAddr()),
	)
}
