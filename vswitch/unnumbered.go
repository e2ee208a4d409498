package vswitch

import (
	"context"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// unnumberedDescriptor handles vpp/interface/unnumbered/{if}, derived from
// interfaces that borrow the address of another one.
func unnumberedDescriptor(port Interfaces) kvscheduler.Descriptor[*vpp_interfaces.Interface_Unnumbered, noMeta] {
	ifaceOf := func(key string) string { return strings.TrimPrefix(key, unnumberedPrefix) }
	return kvscheduler.Descriptor[*vpp_interfaces.Interface_Unnumbered, noMeta]{
		Name: UnnumberedDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isUnnumberedKey,
			Example: models.UnnumberedInterfaceKey("if"),
		},
		Create: func(ctx context.Context, key string, v *vpp_interfaces.Interface_Unnumbered) (noMeta, error) {
			return noMeta{}, port.SetUnnumbered(ctx, ifaceOf(key), v.GetInterfaceWithIp())
		},
		Delete: func(ctx context.Context, key string, _ *vpp_interfaces.Interface_Unnumbered, _ noMeta) error {
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
