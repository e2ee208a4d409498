package interfaces

import (
	"context"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// interfaceVRFDescriptor handles vpp/interface/{if}/vrf/{vrf}/ip-version/{v} and
// vpp/interface/{if}/vrf/from-interface/{lender}, derived from interfaces. The inherited form needs
// no operation: SetUnnumbered copies the VRF.
func interfaceVRFDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.InterfaceVRFDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isVRFKey,
			Example: models.VPPInterfaceVRFKey("if", 0, "v4"),
		},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (descriptor.NoMeta, error) {
			k, err := parseVRFKey(key)
			if err != nil || k.lender != "" {
				return descriptor.NoMeta{}, err
			}
			return descriptor.NoMeta{}, port.SetVRF(ctx, k.iface, k.vrf, k.versions)
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ descriptor.NoMeta) error {
			k, err := parseVRFKey(key)
			if err != nil || k.lender != "" {
				return err
			}
			return port.UnsetVRF(ctx, k.iface, k.vrf, k.versions)
		},
		Dependencies: func(key string, _ *emptypb.Empty) (deps []kvscheduler.Dependency) {
			k, err := parseVRFKey(key)
			switch {
			case err != nil:
				return nil
			case k.lender != "":
				return []kvscheduler.Dependency{{
					Label: "numbered-interface-assigned-to-VRF",
					AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceVRFPrefix(k.lender)}},
				}}
			case k.vrf == 0:
				return nil
			}
			if k.versions.V4 {
				deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-v4-exists", Key: models.VRFTableKey(k.vrf, false)})
			}
			if k.versions.V6 {
				deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-v6-exists", Key: models.VRFTableKey(k.vrf, true)})
			}
			return deps
		},
	}
}
