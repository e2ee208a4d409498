package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// vrfTableDescriptor handles config/vpp/v2/vrf-table/id/{id}/protocol/{v}.
func vrfTableDescriptor(port VRFs) kvscheduler.Descriptor[*vpp_l3.VrfTable, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.VrfTable, noMeta]{
		Name: VRFTableDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.VRFTable.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, t *vpp_l3.VrfTable) error {
			if len(t.GetLabel()) > maxName {
				return invalid("label", "label %q is too long: use at most %d characters", t.GetLabel(), maxName)
			}
			return nil
		},
		Create:   create(port.Create),
		Update:   update(port.Update),
		Delete:   remove(port.Delete),
		Retrieve: retrieve(port.List),
		UpdateWithRecreate: func(_ string, old, new *vpp_l3.VrfTable, _ noMeta) bool {
			return old.GetId() != new.GetId() || old.GetProtocol() != new.GetProtocol()
		},
	}
}
