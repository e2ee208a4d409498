package nat

import (
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// nat66Descriptor handles config/contiv/nat/v1/snat66/{interface}.
func nat66Descriptor(port vswitch.NAT66) kvscheduler.Descriptor[*contiv_nat.SourceNAT66, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*contiv_nat.SourceNAT66, descriptor.NoMeta]{
		Name: vswitch.NAT66Descriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.SourceNAT66.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, s *contiv_nat.SourceNAT66) error {
			switch err := descriptor.ValidAddr("address", s.GetAddress()); {
			case s.GetInterface() == "":
				return descriptor.Invalid("interface", "name the interface that packets leave through")
			case err != nil:
				return err
			case !descriptor.IsIPv6(s.GetAddress()):
				return descriptor.Invalid("address", "%s is an IPv4 address: use Nat44Interface and Nat44AddressPool", s.GetAddress())
			}
			return nil
		},
		Equivalent: func(_ string, old, new *contiv_nat.SourceNAT66) bool {
			return proto.Equal(old, new) || descriptor.SameAddrText(old.GetAddress(), new.GetAddress())
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, s *contiv_nat.SourceNAT66) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(s.GetInterface())}}
		},
	}
}
