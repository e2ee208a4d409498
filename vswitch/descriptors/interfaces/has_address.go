package interfaces

import (
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/descriptor"
	"google.golang.org/protobuf/types/known/emptypb"
)

// hasAddressDescriptor handles vpp/interface/{if}/has-IP-address: a value that
// others depend on, available while any address of the interface is assigned.
func hasAddressDescriptor() kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.HasAddressDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isHasAddressKey,
			Example: models.VPPInterfaceHasAddressKey("if"),
		},
		Create: descriptor.Noop[*emptypb.Empty],
		Delete: descriptor.NoopDelete[*emptypb.Empty],
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			iface := strings.TrimSuffix(strings.TrimPrefix(key, derivedPrefix), "/has-IP-address")
			return []kvscheduler.Dependency{{
				Label: "interface-has-IP",
				AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceAddressPrefix(iface)}},
			}}
		},
	}
}
