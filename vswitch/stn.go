package vswitch

import (
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// stnDescriptor handles config/vpp/stn/v2/rule/{if}/ip/{addr}.
func stnDescriptor() kvscheduler.Descriptor[*vpp_stn.Rule, noMeta] {
	return kvscheduler.Descriptor[*vpp_stn.Rule, noMeta]{
		Name:     STNDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.STNRule.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, r *vpp_stn.Rule) error { return validateSTN(r) },
		Equivalent: func(_ string, a, b *vpp_stn.Rule) bool {
			return a.GetInterface() == b.GetInterface() && sameAddrText(a.GetIpAddress(), b.GetIpAddress())
		},
		RetrieveAfter: []string{InterfaceDescriptor},
		Dependencies: func(_ string, r *vpp_stn.Rule) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "stn-interface-exists", Key: models.VPPInterfaceKey(r.GetInterface())}}
		},
	}
}

func validateSTN(r *vpp_stn.Rule) error {
	return firstError(
		required("interface", r.GetInterface(), "name the interface that leads to the host"),
		validAddr("ip_address", r.GetIpAddress()),
	)
}
