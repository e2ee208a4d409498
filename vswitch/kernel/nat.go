package kernel

import (
	"context"
	"fmt"
	"net/netip"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/vswitch"
)

type nat struct{ *VSwitch }

func (v nat) Enable(ctx context.Context, global *vpp_nat.Nat44Global) error {
	switch {
	case !global.GetForwarding():
		return vswitch.Unsupported("NAT without forwarding: set forwarding, since the Linux kernel forwards what needs no translation")
	case global.GetEndpointIndependent():
		return vswitch.Unsupported("endpoint_independent: the Linux kernel translates per connection")
	case global.GetVirtualReassembly() != nil:
		return vswitch.Unsupported("virtual_reassembly: the Linux kernel reassembles by itself")
	}
	if err := v.change(ctx, func(s *natState) error { s.enabled = true; return nil }); err != nil {
		return fmt.Errorf("enabling NAT: %w", err)
	}
	v.reg.put(global)
	return nil
}

func (v nat) Disable(ctx context.Context) error {
	if err := v.change(ctx, func(s *natState) error { *s = natState{}; return nil }); err != nil {
		return fmt.Errorf("disabling NAT: %w", err)
	}
	v.reg.remove(&vpp_nat.Nat44Global{})
	return nil
}

func (v nat) Global(ctx context.Context, expected *vpp_nat.Nat44Global) (*vpp_nat.Nat44Global, error) {
	s, err := v.read(ctx)
	var wanted, found []*vpp_nat.Nat44Global
	if expected != nil {
		wanted = append(wanted, expected)
	}
	if err == nil && s.enabled && s.intact {
		found = append(found, &vpp_nat.Nat44Global{Forwarding: true})
	}
	if err != nil {
		return nil, err
	}
	settle(v.reg, wanted, found)
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

func (v nat) AddInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error {
	if iface.GetOutputFeature() && !iface.GetNatOutside() {
		return vswitch.Unsupported("the output feature on an inside interface: set nat_outside")
	}
	if !fitsComment(iface.GetName()) {
		return vswitch.Unsupported("NAT on interface %q: use letters, digits and -_./: only in its name", iface.GetName())
	}
	link, err := v.link(iface.GetName())
	if err == nil {
		err = v.change(ctx, func(s *natState) error {
			s.removeInterface(iface.GetName())
			s.interfaces = append(s.interfaces, natInterface{
				device: link.Attrs().Name, name: iface.GetName(),
				inside: iface.GetNatInside(), outside: iface.GetNatOutside() && !iface.GetOutputFeature(), output: iface.GetOutputFeature(),
			})
			return s.mustBeEnabled()
		})
	}
	if err != nil {
		return fmt.Errorf("adding interface %q to NAT: %w", iface.GetName(), err)
	}
	v.reg.put(iface)
	return nil
}

func (v nat) RemoveInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error {
	err := v.change(ctx, func(s *natState) error { s.removeInterface(iface.GetName()); return nil })
	if err != nil {
		return fmt.Errorf("removing interface %q from NAT: %w", iface.GetName(), err)
	}
	v.reg.remove(iface)
	return nil
}

func (v nat) ListInterfaces(ctx context.Context, expected []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error) {
	s, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	var list []*vpp_nat.Nat44Interface
	for _, i := range s.interfaces {
		list = append(list, &vpp_nat.Nat44Interface{
			Name: i.name, NatInside: i.inside, NatOutside: i.outside || i.output, OutputFeature: i.output,
		})
	}
	settle(v.reg, expected, list)
	return list, nil
}

func (v nat) AddPool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	switch vrf := pool.GetVrfId(); {
	case pool.GetTwiceNat():
		return vswitch.Unsupported("pools for twice-NAT, in the Linux kernel")
	case vrf != 0 && vrf != vswitch.AllVRFs:
		return noVRF(vrf)
	case !fitsComment(pool.GetName()):
		return vswitch.Unsupported("NAT pools with such a name: use letters, digits and -_./: only")
	}
	p, err := poolOf(pool)
	if err == nil {
		err = v.change(ctx, func(s *natState) error {
			s.removePool(p)
			s.pools = append(s.pools, p)
			return s.mustBeEnabled()
		})
	}
	if err != nil {
		return fmt.Errorf("adding NAT address pool %s: %w", p, err)
	}
	v.reg.put(pool)
	return nil
}

func (v nat) RemovePool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	p, err := poolOf(pool)
	if err == nil {
		err = v.change(ctx, func(s *natState) error { s.removePool(p); return nil })
	}
	if err != nil {
		return fmt.Errorf("removing NAT address pool %s: %w", p, err)
	}
	v.reg.remove(pool)
	return nil
}

func (v nat) ListPools(ctx context.Context, expected []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error) {
	s, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	type id struct{ name, first, last string }
	wanted := map[id]*vpp_nat.Nat44AddressPool{}
	for _, pool := range expected {
		if p, err := poolOf(pool); err == nil {
			wanted[id{p.name, p.first.String(), p.last.String()}] = pool
		}
	}
	var list []*vpp_nat.Nat44AddressPool
	for _, p := range s.pools {
		pool := &vpp_nat.Nat44AddressPool{Name: p.name, VrfId: p.vrf, FirstIp: p.first.String()}
		if p.last != p.first {
			pool.LastIp = p.last.String()
		}
		if want := wanted[id{p.name, pool.FirstIp, p.last.String()}]; want != nil {
			pool.FirstIp, pool.LastIp = want.GetFirstIp(), want.GetLastIp() // as they are written
		}
		list = append(list, pool)
	}
	settle(v.reg, expected, list)
	return list, nil
}

func poolOf(pool *vpp_nat.Nat44AddressPool) (p natPool, err error) {
	p = natPool{vrf: pool.GetVrfId(), name: pool.GetName()}
	if p.first, err = netip.ParseAddr(pool.GetFirstIp()); err != nil {
		return p, err
	}
	p.last = p.first
	if pool.GetLastIp() != "" {
		p.last, err = netip.ParseAddr(pool.GetLastIp())
	}
	return p, err
}
