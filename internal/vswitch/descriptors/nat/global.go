package nat

import (
	"cmp"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The lists in the global NAT value are obsolete: use Nat44Interface and Nat44AddressPool values.
// The lists still work, as derived values.

func natInterfacesOf(g *vpp_nat.Nat44Global) []*vpp_nat.Nat44Global_Interface {
	//lint:ignore SA1019 some still use them
	return g.GetNatInterfaces()
}

func natAddressesOf(g *vpp_nat.Nat44Global) []*vpp_nat.Nat44Global_Address {
	//lint:ignore SA1019 some still use them
	return g.GetAddressPool()
}

func validateNATGlobal(g *vpp_nat.Nat44Global) error {
	seen := map[string]bool{}
	twice := func(key string) bool {
		defer func() { seen[key] = true }()
		return seen[key]
	}
	for _, i := range natInterfacesOf(g) {
		switch {
		case i.GetName() == "":
			return descriptor.Invalid("nat_interfaces.name", "a NAT interface needs the name of the interface")
		case twice(models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside())):
			return descriptor.Invalid("nat_interfaces", "interface %q is in the list twice on the same side", i.GetName())
		}
		other := slices.ContainsFunc(natInterfacesOf(g), func(o *vpp_nat.Nat44Global_Interface) bool {
			return o.GetName() == i.GetName() && o.GetIsInside() != i.GetIsInside()
		})
		if other && i.GetOutputFeature() {
			return descriptor.Invalid("nat_interfaces", "interface %q cannot be inside and outside with the output feature", i.GetName())
		}
	}
	for _, a := range natAddressesOf(g) {
		if err := validIPv4("address_pool.address", a.GetAddress()); err != nil {
			return err
		}
		if twice(models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat())) {
			return descriptor.Invalid("address_pool", "address %s is in the list twice", a.GetAddress())
		}
	}
	return nil
}

func validIPv4(field, addr string) error {
	if err := descriptor.ValidAddr(field, addr); err != nil {
		return err
	}
	if descriptor.IsIPv6(addr) {
		return descriptor.Invalid(field, "%s is an IPv6 address: NAT44 translates IPv4", addr)
	}
	return nil
}

func normalGlobal(g *vpp_nat.Nat44Global) *vpp_nat.Nat44Global {
	g = proto.CloneOf(g)
	slices.SortFunc(natInterfacesOf(g), func(a, b *vpp_nat.Nat44Global_Interface) int {
		return cmp.Compare(models.NAT44GlobalInterfaceKey(a.GetName(), a.GetIsInside()), models.NAT44GlobalInterfaceKey(b.GetName(), b.GetIsInside()))
	})
	slices.SortFunc(natAddressesOf(g), func(a, b *vpp_nat.Nat44Global_Address) int {
		return cmp.Compare(models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat()), models.NAT44GlobalAddressKey(b.GetAddress(), b.GetTwiceNat()))
	})
	return g
}

func derivedOfNATGlobal(g *vpp_nat.Nat44Global) (derived []kvscheduler.KeyValue) {
	if !g.GetEndpointIndependent() {
		derived = append(derived, kvscheduler.KeyValue{Key: models.NAT44EndpointDependentKey, Value: descriptor.Empty()})
	}
	for _, i := range natInterfacesOf(g) {
		derived = append(derived, kvscheduler.KeyValue{Key: models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside()), Value: i})
	}
	for _, a := range natAddressesOf(g) {
		derived = append(derived, kvscheduler.KeyValue{Key: models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat()), Value: a})
		if a.GetTwiceNat() {
			derived = append(derived, kvscheduler.KeyValue{Key: models.NAT44TwicePoolKey(a.GetVrfId(), a.GetAddress(), ""), Value: descriptor.Empty()})
		}
	}
	return derived
}

// natGlobalInterfaceDescriptor handles vpp/nat44/interface/{if}/feature/{in|out}.
func natGlobalInterfaceDescriptor(port vswitch.NATInterfaces) kvscheduler.Descriptor[*vpp_nat.Nat44Global_Interface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44Global_Interface, descriptor.NoMeta]{
		Name:   vswitch.NATGlobalInterfaceDescriptor,
		Keys:   kvscheduler.KeySpace{Prefix: models.NAT44GlobalInterfacePrefix},
		Create: descriptor.Create(port.AddGlobalInterface),
		Delete: descriptor.Delete(port.RemoveGlobalInterface),
		Dependencies: func(_ string, i *vpp_nat.Nat44Global_Interface) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{natInterfaceExists(i.GetName())}
		},
	}
}

// natGlobalAddressDescriptor handles vpp/nat44/address/{addr}/twice-nat/{on|off}.
func natGlobalAddressDescriptor(port vswitch.NATPools) kvscheduler.Descriptor[*vpp_nat.Nat44Global_Address, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44Global_Address, descriptor.NoMeta]{
		Name:   vswitch.NATGlobalAddressDescriptor,
		Keys:   kvscheduler.KeySpace{Prefix: models.NAT44GlobalAddressPrefix},
		Create: descriptor.Create(port.AddGlobalAddress),
		Delete: descriptor.Delete(port.RemoveGlobalAddress),
		Dependencies: func(_ string, a *vpp_nat.Nat44Global_Address) []kvscheduler.Dependency {
			deps := natVRFExists("vrf-table-exists", a.GetVrfId())
			if a.GetTwiceNat() {
				deps = append(deps, natEndpointDependent)
			}
			return deps
		},
	}
}

// natPropertyDescriptor handles derived keys without content that others depend on.
func natPropertyDescriptor(name, prefix string) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name:   name,
		Keys:   kvscheduler.KeySpace{Prefix: prefix},
		Create: descriptor.Noop[*emptypb.Empty],
		Delete: descriptor.NoopDelete[*emptypb.Empty],
	}
}
