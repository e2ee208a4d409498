package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// ipScanNeighborDescriptor handles config/vpp/v2/ipscanneigh-global.
func ipScanNeighborDescriptor() kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, noMeta]{
		Name:               IPScanNeighborDescriptor,
		Keys:               kvscheduler.KeySpace{Prefix: models.IPScanNeighbor.KeyPrefix()},
		NB:                 true,
		Validate:           func(string, *vpp_l3.IPScanNeighbor) error { return nil },
		UpdateWithRecreate: never[*vpp_l3.IPScanNeighbor],
	}
}
