package interfaces

import (
	"context"
	"fmt"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

const bondMemberPrefix = "vpp/bond/"

// bondMemberDescriptor handles vpp/bond/{bond}/interface/{if}/, derived from bonds.
func bondMemberDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*vpp_interfaces.BondLink_BondedInterface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_interfaces.BondLink_BondedInterface, descriptor.NoMeta]{
		Name: vswitch.BondMemberDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: bondMemberPrefix},
		Create: func(ctx context.Context, key string, v *vpp_interfaces.BondLink_BondedInterface) (descriptor.NoMeta, error) {
			bond, err := bondOfMemberKey(key, v)
			if err != nil {
				return descriptor.NoMeta{}, err
			}
			return descriptor.NoMeta{}, port.AddBondMember(ctx, bond, v)
		},
		Delete: func(ctx context.Context, key string, v *vpp_interfaces.BondLink_BondedInterface, _ descriptor.NoMeta) error {
			bond, err := bondOfMemberKey(key, v)
			if err != nil {
				return err
			}
			return port.RemoveBondMember(ctx, bond, v)
		},
		Dependencies: func(_ string, v *vpp_interfaces.BondLink_BondedInterface) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(v.GetName())}}
		},
	}
}

func bondOfMemberKey(key string, v *vpp_interfaces.BondLink_BondedInterface) (string, error) {
	bond, ok := strings.CutSuffix(strings.TrimPrefix(key, bondMemberPrefix), "/interface/"+v.GetName()+"/")
	if !ok {
		return "", fmt.Errorf("%q is no key of interface %q in a bond", key, v.GetName())
	}
	return bond, nil
}

// sameBond compares the fields that need a new bond: all except its members.
func sameBond(a, b *vpp_interfaces.BondLink) bool {
	bare := func(bond *vpp_interfaces.BondLink) *vpp_interfaces.BondLink {
		bond = proto.CloneOf(bond)
		if bond != nil {
			bond.BondedInterfaces = nil
		}
		return bond
	}
	return proto.Equal(bare(a), bare(b))
}

// sameBondMembers compares the members, in any order.
func sameBondMembers(a, b *vpp_interfaces.BondLink) bool {
	return descriptor.SameParts(a.GetBondedInterfaces(), b.GetBondedInterfaces(), bondMemberOf)
}

type bondMember struct {
	name              string
	passive, longTime bool
}

func bondMemberOf(m *vpp_interfaces.BondLink_BondedInterface) bondMember {
	return bondMember{m.GetName(), m.GetIsPassive(), m.GetIsLongTimeout()}
}
