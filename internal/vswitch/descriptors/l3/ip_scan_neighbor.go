package l3

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// ipScanNeighborDescriptor handles config/vpp/v2/ipscanneigh-global.
func ipScanNeighborDescriptor() kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.IPScanNeighbor, descriptor.NoMeta]{
		Name:     vswitch.IPScanNeighborDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.IPScanNeighbor.KeyPrefix()},
		NB:       true,
		Validate: func(string, *vpp_l3.IPScanNeighbor) error { return nil },
		Equivalent: func(_ string, a, b *vpp_l3.IPScanNeighbor) bool {
			a, b = proto.CloneOf(a), proto.CloneOf(b)
			a.StaleThreshold, b.StaleThreshold = vswitch.StaleThreshold(a), vswitch.StaleThreshold(b)
			return proto.Equal(a, b)
		},
		UpdateWithRecreate: descriptor.Never[*vpp_l3.IPScanNeighbor],
	}
}
