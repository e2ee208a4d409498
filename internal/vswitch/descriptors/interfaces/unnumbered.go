package interfaces

import (
	"context"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// unnumberedDescriptor handles vpp/interface/unnumbered/{if}, derived from interfaces that borrow
// an address.
func unnumberedDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*vpp_interfaces.Interface_Unnumbered, descriptor.NoMeta] {
	ifaceOf := func(key string) string { return strings.TrimPrefix(key, unnumberedPrefix) }
	return kvscheduler.Descriptor[*vpp_interfaces.Interface_Unnumbered, descriptor.NoMeta]{
		Name: vswitch.UnnumberedDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isUnnumberedKey,
			Example: models.UnnumberedInterfaceKey("if"),
		},
		Create: func(ctx context.Context, key string, v *vpp_interfaces.Interface_Unnumbered) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, port.SetUnnumbered(ctx, ifaceOf(key), v.GetInterfaceWithIp())
		},
		Delete: func(ctx context.Context, key string, _ *vpp_interfaces.Interface_Unnumbered, _ descriptor.NoMeta) error {
			return port.UnsetUnnumbered(ctx, ifaceOf(key))
		},
		Dependencies: func(key string, v *vpp_interfaces.Interface_Unnumbered) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{
				{Label: "unnumbered-interface-has-IP", Key: models.VPPInterfaceHasAddressKey(v.GetInterfaceWithIp())},
				inSomeVRF(ifaceOf(key)),
			}
		},
	}
}
