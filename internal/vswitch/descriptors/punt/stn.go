package punt

import (
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// stnDescriptor handles config/vpp/stn/v2/rule/{if}/ip/{addr}.
func stnDescriptor() kvscheduler.Descriptor[*vpp_stn.Rule, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_stn.Rule, descriptor.NoMeta]{
		Name:     vswitch.STNDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.STNRule.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, r *vpp_stn.Rule) error { return validateSTN(r) },
		Equivalent: func(_ string, a, b *vpp_stn.Rule) bool {
			return a.GetInterface() == b.GetInterface() && descriptor.SameAddrText(a.GetIpAddress(), b.GetIpAddress())
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, r *vpp_stn.Rule) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "stn-interface-exists", Key: models.VPPInterfaceKey(r.GetInterface())}}
		},
	}
}

func validateSTN(r *vpp_stn.Rule) error {
	return descriptor.FirstError(
		descriptor.Required("interface", r.GetInterface(), "name the interface that leads to the host"),
		descriptor.ValidAddr("ip_address", r.GetIpAddress()),
	)
}
