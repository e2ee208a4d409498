package l3

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// vrfTableDescriptor handles config/vpp/v2/vrf-table/id/{id}/protocol/{v}.
func vrfTableDescriptor(port vswitch.VRFs) kvscheduler.Descriptor[*vpp_l3.VrfTable, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.VrfTable, descriptor.NoMeta]{
		Name: vswitch.VRFTableDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.VRFTable.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, t *vpp_l3.VrfTable) error {
			if len(t.GetLabel()) > descriptor.MaxName {
				return descriptor.Invalid("label", "label %q is too long: use at most %d characters", t.GetLabel(), descriptor.MaxName)
			}
			return nil
		},
		Create:   descriptor.Create(port.Create),
		Update:   descriptor.Update(port.Update),
		Delete:   descriptor.Delete(port.Delete),
		Retrieve: descriptor.Retrieve(port.List),
		UpdateWithRecreate: func(_ string, old, new *vpp_l3.VrfTable, _ descriptor.NoMeta) bool {
			return old.GetId() != new.GetId() || old.GetProtocol() != new.GetProtocol()
		},
	}
}
