package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// ipScanNeighborDescriptor handles config/vpp/v2/ipscanneigh-global.
func ipScanNeighborDescriptor() kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, noMeta]{
		Name:     IPScanNeighborDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.IPScanNeighbor.KeyPrefix()},
		NB:       true,
		Validate: func(string, *vpp_l3.IPScanNeighbor) error { return nil },
		Equivalent: func(_ string, a, b *vpp_l3.IPScanNeighbor) bool {
			a, b = proto.CloneOf(a), proto.CloneOf(b)
			a.StaleThreshold, b.StaleThreshold = StaleThreshold(a), StaleThreshold(b)
			return proto.Equal(a, b)
		},
		UpdateWithRecreate: never[*vpp_l3.IPScanNeighbor],
	}
}

// defaultStaleThreshold is in minutes.
const defaultStaleThreshold = 4

// StaleThreshold returns the minutes after which a silent neighbour is forgotten.
func StaleThreshold(s *vpp_l3.IPScanNeighbor) uint32 {
	if s.GetStaleThreshold() == 0 {
		return defaultStaleThreshold
	}
	return s.GetStaleThreshold()
}
