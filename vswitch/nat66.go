package vswitch

import (
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// nat66Descriptor handles config/contiv/nat/v1/snat66/{interface}.
func nat66Descriptor(port NAT66) kvscheduler.Descriptor[*contiv_nat.SourceNAT66, noMeta] {
	return kvscheduler.Descriptor[*contiv_nat.SourceNAT66, noMeta]{
		Name: NAT66Descriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.SourceNAT66.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, s *contiv_nat.SourceNAT66) error {
			switch err := validAddr("address", s.GetAddress()); {
			case s.GetInterface() == "":
				return invalid("interface", "name the interface that packets leave through")
			case err != nil:
				return err
			case !isIPv6(s.GetAddress()):
				return invalid("address", "%s is an IPv4 address: those are translated by Nat44Interface and Nat44AddressPool", s.GetAddress())
			}
			return nil
		},
		Equivalent: func(_ string, old, new *contiv_nat.SourceNAT66) bool {
			return proto.Equal(old, new) || sameAddrText(old.GetAddress(), new.GetAddress())
		},
		Create:        create(port.Create),
		Delete:        remove(port.Delete),
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor},
		Dependencies: func(_ string, s *contiv_nat.SourceNAT66) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(s.GetInterface())}}
		},
	}
}
