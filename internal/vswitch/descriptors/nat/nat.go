package nat

import (
	"context"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// natGlobalDescriptor handles config/vpp/nat/v2/nat44-global.
func natGlobalDescriptor(port vswitch.NATGlobal) kvscheduler.Descriptor[*vpp_nat.Nat44Global, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44Global, descriptor.NoMeta]{
		Name:     vswitch.NATGlobalDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.NAT44Global.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, g *vpp_nat.Nat44Global) error { return validateNATGlobal(g) },
		Equivalent: func(_ string, old, new *vpp_nat.Nat44Global) bool {
			return proto.Equal(normalGlobal(old), normalGlobal(new))
		},
		DerivedValues: func(_ string, g *vpp_nat.Nat44Global) []kvscheduler.KeyValue { return derivedOfNATGlobal(g) },
		Create:        descriptor.Create(port.Enable),
		Update:        descriptor.Update(func(ctx context.Context, _, new *vpp_nat.Nat44Global) error { return port.Enable(ctx, new) }),
		Delete:        descriptor.Delete(func(ctx context.Context, _ *vpp_nat.Nat44Global) error { return port.Disable(ctx) }),
		UpdateWithRecreate: func(_ string, old, new *vpp_nat.Nat44Global, _ descriptor.NoMeta) bool {
			return old.GetEndpointIndependent() != new.GetEndpointIndependent()
		},
		Retrieve: descriptor.Retrieve(func(ctx context.Context, expected []*vpp_nat.Nat44Global) ([]*vpp_nat.Nat44Global, error) {
			var want *vpp_nat.Nat44Global
			if len(expected) > 0 {
				want = expected[0]
			}
			global, err := port.Global(ctx, want)
			if err != nil || global == nil {
				return nil, err
			}
			return []*vpp_nat.Nat44Global{global}, nil
		}),
	}
}

// natInterfaceDescriptor handles config/vpp/nat/v2/nat44-interface/{if}.
func natInterfaceDescriptor(port vswitch.NATInterfaces) kvscheduler.Descriptor[*vpp_nat.Nat44Interface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44Interface, descriptor.NoMeta]{
		Name: vswitch.NATInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.NAT44Interface.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, i *vpp_nat.Nat44Interface) error {
			switch {
			case i.GetName() == "":
				return descriptor.Invalid("name", "a NAT interface needs the name of the interface")
			case !i.GetNatInside() && !i.GetNatOutside():
				return descriptor.Invalid("nat_outside", "interface %q is neither inside nor outside: set nat_inside, nat_outside or both", i.GetName())
			case i.GetNatInside() && i.GetNatOutside() && i.GetOutputFeature():
				return descriptor.Invalid("output_feature", "interface %q cannot be inside and outside with the output feature", i.GetName())
			}
			return nil
		},
		Create: descriptor.Create(port.AddInterface),
		Update: descriptor.Update(func(ctx context.Context, _, new *vpp_nat.Nat44Interface) error {
			return port.AddInterface(ctx, new)
		}),
		Delete:        descriptor.Delete(port.RemoveInterface),
		Retrieve:      descriptor.Retrieve(port.ListInterfaces),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.NATGlobalDescriptor},
		Dependencies: func(_ string, i *vpp_nat.Nat44Interface) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{natEnabled, natInterfaceExists(i.GetName())}
		},
	}
}

// natPoolDescriptor handles config/vpp/nat/v2/nat44-pool/….
func natPoolDescriptor(port vswitch.NATPools) kvscheduler.Descriptor[*vpp_nat.Nat44AddressPool, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_nat.Nat44AddressPool, descriptor.NoMeta]{
		Name:     vswitch.NATPoolDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.NAT44Pool.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_nat.Nat44AddressPool) error { return validatePool(p) },
		Equivalent: func(_ string, old, new *vpp_nat.Nat44AddressPool) bool {
			return proto.Equal(normalPool(old), normalPool(new))
		},
		Create:        descriptor.Create(port.AddPool),
		Delete:        descriptor.Delete(port.RemovePool),
		Retrieve:      descriptor.Retrieve(port.ListPools),
		RetrieveAfter: []string{vswitch.NATGlobalDescriptor},
		DerivedValues: func(_ string, p *vpp_nat.Nat44AddressPool) []kvscheduler.KeyValue {
			if !p.GetTwiceNat() {
				return nil
			}
			return []kvscheduler.KeyValue{{Key: models.NAT44TwicePoolKey(p.GetVrfId(), p.GetFirstIp(), lastOf(p)), Value: descriptor.Empty()}}
		},
		Dependencies: func(_ string, p *vpp_nat.Nat44AddressPool) []kvscheduler.Dependency {
			deps := append([]kvscheduler.Dependency{natEnabled}, natVRFExists("vrf-table-exists", p.GetVrfId())...)
			if p.GetTwiceNat() {
				deps = append(deps, natEndpointDependent)
			}
			return deps
		},
	}
}

var (
	natEnabled = kvscheduler.Dependency{Label: "nat44-global-config-exists", Key: models.NAT44Global.KeyPrefix()}
	// Endpoint-independent NAT supports neither twice-NAT nor mappings.
	natEndpointDependent = kvscheduler.Dependency{Label: "nat44-is-in-endpoint-dependent-mode", Key: models.NAT44EndpointDependentKey}
)

func natInterfaceExists(iface string) kvscheduler.Dependency {
	return kvscheduler.Dependency{Label: "interface-exists-" + iface, Key: models.VPPInterfaceKey(iface)}
}

// natVRFExists returns no dependency for VRF 0 and for all VRFs.
func natVRFExists(label string, vrf uint32) []kvscheduler.Dependency {
	if vrf == 0 || vrf == vswitch.AllVRFs {
		return nil
	}
	return []kvscheduler.Dependency{{Label: label, Key: models.VRFTableKey(vrf, false)}}
}

func validatePool(p *vpp_nat.Nat44AddressPool) error {
	for _, f := range []struct{ field, addr string }{{"first_ip", p.GetFirstIp()}, {"last_ip", lastOf(p)}} {
		if err := descriptor.ValidAddr(f.field, f.addr); err != nil {
			return err
		}
		if descriptor.IsIPv6(f.addr) {
			return descriptor.Invalid(f.field, "%s is an IPv6 address: NAT44 pools hold IPv4 addresses", f.addr)
		}
	}
	if descriptor.AddrLess(lastOf(p), p.GetFirstIp()) {
		return descriptor.Invalid("last_ip", "the last address %s is before the first, %s", p.GetLastIp(), p.GetFirstIp())
	}
	return nil
}

func lastOf(p *vpp_nat.Nat44AddressPool) string {
	if p.GetLastIp() == "" {
		return p.GetFirstIp()
	}
	return p.GetLastIp()
}

func normalPool(p *vpp_nat.Nat44AddressPool) *vpp_nat.Nat44AddressPool {
	last := lastOf(p)
	p = proto.CloneOf(p)
	p.LastIp = last
	return p
}
