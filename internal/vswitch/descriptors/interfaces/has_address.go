package interfaces

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// hasAddressDescriptor handles vpp/interface/{if}/has-IP-address, derived from interfaces, on which
// borrowers depend. It is available while the interface has an address and is in its VRF for all IP
// versions of its addresses. A borrower does not follow its lender into another VRF.
func hasAddressDescriptor() kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta]{
		Name: vswitch.HasAddressDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isHasAddressKey,
			Example: models.VPPInterfaceHasAddressKey("if"),
		},
		Equivalent: func(_ string, old, new *vpp_interfaces.Interface) bool { return sameAddressing(old, new) },
		Create:     descriptor.Noop[*vpp_interfaces.Interface],
		Update: func(context.Context, string, *vpp_interfaces.Interface, *vpp_interfaces.Interface, descriptor.NoMeta) (none descriptor.NoMeta, err error) {
			return none, nil
		},
		Delete: descriptor.NoopDelete[*vpp_interfaces.Interface],
		Dependencies: func(_ string, iface *vpp_interfaces.Interface) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{
				Label: "interface-has-IP",
				AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceAddressPrefix(iface.GetName())}},
			}}
			if iface.GetUnnumbered() != nil {
				return deps
			}
			for _, v := range versionsOf(iface).Each() {
				deps = append(deps, kvscheduler.Dependency{Label: "interface-in-VRF-" + v.String(), Key: models.VPPInterfaceVRFKey(iface.GetName(), iface.GetVrf(), v.String())})
			}
			return deps
		},
	}
}

// versionsOf returns the IP versions of an interface's addresses.
func versionsOf(iface *vpp_interfaces.Interface) (versions vswitch.IPVersions) {
	for _, addr := range addressesOf(iface) {
		versions.V4 = versions.V4 || addr.versions.V4
		versions.V6 = versions.V6 || addr.versions.V6
	}
	versions.V4 = versions.V4 || iface.GetSetDhcpClient()
	return versions
}
