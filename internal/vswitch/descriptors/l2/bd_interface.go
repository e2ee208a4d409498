package l2

import (
	"context"
	"fmt"
	"strings"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

const bdInterfacePrefix = "vpp/bd/"

// bdInterfaceDescriptor handles vpp/bd/{bd}/interface/{if}, derived from bridge
// domains.
func bdInterfaceDescriptor(port vswitch.Bridges) kvscheduler.Descriptor[*vpp_l2.BridgeDomain_Interface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l2.BridgeDomain_Interface, descriptor.NoMeta]{
		Name: vswitch.BDInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: bdInterfacePrefix},
		Equivalent: func(_ string, old, new *vpp_l2.BridgeDomain_Interface) bool {
			return bdInterfaceOf(old) == bdInterfaceOf(new)
		},
		Create: func(ctx context.Context, key string, v *vpp_l2.BridgeDomain_Interface) (descriptor.NoMeta, error) {
			bd, err := bdOfInterfaceKey(key, v)
			if err != nil {
				return descriptor.NoMeta{}, err
			}
			return descriptor.NoMeta{}, port.Bind(ctx, bd, v)
		},
		Delete: func(ctx context.Context, key string, v *vpp_l2.BridgeDomain_Interface, _ descriptor.NoMeta) error {
			bd, err := bdOfInterfaceKey(key, v)
			if err != nil {
				return err
			}
			return port.Unbind(ctx, bd, v)
		},
		Dependencies: func(_ string, v *vpp_l2.BridgeDomain_Interface) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(v.GetName())}}
		},
	}
}

func bdOfInterfaceKey(key string, v *vpp_l2.BridgeDomain_Interface) (string, error) {
	bd, ok := strings.CutSuffix(strings.TrimPrefix(key, bdInterfacePrefix), "/interface/"+v.GetName())
	if !ok {
		return "", fmt.Errorf("%q is no key of interface %q in a bridge domain", key, v.GetName())
	}
	return bd, nil
}
