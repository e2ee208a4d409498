package nat

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
)

type nat struct{ *Driver }

// NAT44 returns the port for NAT of IPv4.
func (v *Driver) NAT44() vswitch.NAT { return nat{v} }

func (v nat) Enable(ctx context.Context, global *vpp_nat.Nat44Global) error {
	if global.GetEndpointIndependent() {
		return vswitch.Unsupported("endpoint_independent: the Linux kernel translates per connection")
	}
	if global.GetTcpSessionTimeout() != 0 || global.GetOtherSessionTimeout() != 0 {
		return vswitch.Unsupported("session time-outs: the Linux kernel has one for all of the host (sysctl net.netfilter.nf_conntrack_tcp_timeout_established and others)")
	}
	err := v.nat.change(func(s *natState) error {
		s.enabled, s.forwarding = true, global.GetForwarding()
		return nil
	})
	if err != nil {
		return fmt.Errorf("enabling NAT: %w", err)
	}
	v.Reg.Put(global)
	return nil
}

func (v nat) Disable(ctx context.Context) error {
	if err := v.nat.change(func(s *natState) error { *s = natState{}; return nil }); err != nil {
		return fmt.Errorf("disabling NAT: %w", err)
	}
	v.Reg.Remove(&vpp_nat.Nat44Global{})
	return nil
}

func (v nat) Global(ctx context.Context, expected *vpp_nat.Nat44Global) (*vpp_nat.Nat44Global, error) {
	s, err := v.nat.read()
	if err != nil {
		return nil, err
	}
	var wanted, found []*vpp_nat.Nat44Global
	if expected != nil {
		wanted = append(wanted, expected)
	}
	if s.enabled && s.complete {
		g := s.global(expected)
		if !s.intact { // Enable rewrites the rules. If the value were missing, all DNAT would be removed first, and flows would end.
			g.Forwarding = !expected.GetForwarding()
		}
		found = append(found, g)
	}
	own.Settle(v.Reg, wanted, found)
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// global returns the global value. Kernel parameters control reassembly, so its fields are returned
// as expected.
func (s *natState) global(expected *vpp_nat.Nat44Global) *vpp_nat.Nat44Global {
	g := &vpp_nat.Nat44Global{Forwarding: s.forwarding, VirtualReassembly: expected.GetVirtualReassembly()}
	for _, i := range s.interfaces {
		if i.global {
			//lint:ignore SA1019 some still use them
			g.NatInterfaces = append(g.NatInterfaces, &vpp_nat.Nat44Global_Interface{
				Name: i.name, IsInside: i.set == setInside, OutputFeature: i.set == setOutput,
			})
		}
	}
	for _, p := range s.pools {
		if p.global {
			//lint:ignore SA1019 some still use them
			g.AddressPool = append(g.AddressPool, &vpp_nat.Nat44Global_Address{Address: p.first.String(), VrfId: p.vrf, TwiceNat: p.twice})
		}
	}
	return g
}

func (v nat) AddInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error {
	if iface.GetOutputFeature() && !iface.GetNatOutside() {
		return vswitch.Unsupported("the output feature on an inside interface: set nat_outside")
	}
	var sets []string
	if iface.GetNatInside() {
		sets = append(sets, setInside)
	}
	switch {
	case iface.GetOutputFeature():
		sets = append(sets, setOutput)
	case iface.GetNatOutside():
		sets = append(sets, setOutside)
	}
	if err := v.setInterface(iface.GetName(), false, sets); err != nil {
		return fmt.Errorf("adding interface %q to NAT: %w", iface.GetName(), err)
	}
	v.Reg.Put(iface)
	return nil
}

func (v nat) setInterface(name string, global bool, sets []string) error {
	if !fitsComment(name) {
		return vswitch.Unsupported("NAT on interface %q: use letters, digits and -_./: only in its name", name)
	}
	link, err := v.Link(name)
	if err != nil {
		return err
	}
	return v.nat.change(func(s *natState) error {
		s.setInterface(name, global, sets, link.Attrs().Name)
		for _, i := range s.interfaces {
			if i.name == name && i.global != global && slices.Contains(sets, i.set) {
				return errInterfaceTwice
			}
		}
		return v.mustBeEnabled(s)
	})
}

var errInterfaceTwice = fmt.Errorf("it is in nat_interfaces of Nat44Global and has a Nat44Interface value: remove one of them")

func (v nat) RemoveInterface(ctx context.Context, iface *vpp_nat.Nat44Interface) error {
	err := v.nat.change(func(s *natState) error { s.setInterface(iface.GetName(), false, nil, ""); return nil })
	if err != nil {
		return fmt.Errorf("removing interface %q from NAT: %w", iface.GetName(), err)
	}
	v.Reg.Remove(iface)
	return nil
}

func (v nat) ListInterfaces(ctx context.Context, expected []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error) {
	s, err := v.nat.read()
	if err != nil {
		return nil, err
	}
	byName := map[string]*vpp_nat.Nat44Interface{}
	var list []*vpp_nat.Nat44Interface
	for _, i := range s.interfaces {
		if i.global {
			continue
		}
		if byName[i.name] == nil {
			byName[i.name] = &vpp_nat.Nat44Interface{Name: i.name}
			list = append(list, byName[i.name])
		}
		value := byName[i.name]
		value.NatInside = value.NatInside || i.set == setInside
		value.NatOutside = value.NatOutside || i.set != setInside
		value.OutputFeature = value.OutputFeature || i.set == setOutput
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v nat) AddPool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	p, err := poolOf(pool)
	if err == nil {
		err = v.setPool(p)
	}
	if err != nil {
		return fmt.Errorf("adding NAT address pool %s: %w", p, err)
	}
	v.Reg.Put(pool)
	return nil
}

func (v nat) setPool(p natPool) error {
	switch {
	case p.vrf != 0 && p.vrf != vswitch.AllVRFs:
		return own.OnlyMain(p.vrf, "NAT")
	case !fitsComment(p.name):
		return vswitch.Unsupported("NAT pools with such a name: use letters, digits and -_./: only")
	}
	return v.nat.change(func(s *natState) error {
		if !slices.Contains(s.pools, p) {
			s.removePool(p)
			s.pools = append(s.pools, p)
		}
		return v.mustBeEnabled(s)
	})
}

func (v nat) RemovePool(ctx context.Context, pool *vpp_nat.Nat44AddressPool) error {
	p, err := poolOf(pool)
	if err == nil {
		err = v.nat.change(func(s *natState) error { s.removePool(p); return nil })
	}
	if err != nil {
		return fmt.Errorf("removing NAT address pool %s: %w", p, err)
	}
	v.Reg.Remove(pool)
	return nil
}

func (v nat) ListPools(ctx context.Context, expected []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error) {
	s, err := v.nat.read()
	if err != nil {
		return nil, err
	}
	wanted := map[natPool]*vpp_nat.Nat44AddressPool{}
	for _, pool := range expected {
		if p, err := poolOf(pool); err == nil {
			wanted[p] = pool
		}
	}
	var list []*vpp_nat.Nat44AddressPool
	for _, p := range s.pools {
		if p.global {
			continue
		}
		pool := &vpp_nat.Nat44AddressPool{Name: p.name, VrfId: p.vrf, FirstIp: p.first.String(), TwiceNat: p.twice}
		if p.last != p.first {
			pool.LastIp = p.last.String()
		}
		if want := wanted[p]; want != nil {
			pool.FirstIp, pool.LastIp = want.GetFirstIp(), want.GetLastIp()
		}
		list = append(list, pool)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func poolOf(pool *vpp_nat.Nat44AddressPool) (p natPool, err error) {
	p = natPool{vrf: pool.GetVrfId(), name: pool.GetName(), twice: pool.GetTwiceNat()}
	if p.first, err = netip.ParseAddr(pool.GetFirstIp()); err != nil {
		return p, err
	}
	p.last = p.first
	if pool.GetLastIp() != "" {
		p.last, err = netip.ParseAddr(pool.GetLastIp())
	}
	return p, err
}

func (v nat) AddGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error {
	set, err := globalSet(iface)
	if err == nil {
		err = v.editGlobalInterface(iface.GetName(), func(sets []string) []string { return append(sets, set) })
	}
	if err != nil {
		return fmt.Errorf("adding interface %q to NAT: %w", iface.GetName(), err)
	}
	return nil
}

func (v nat) RemoveGlobalInterface(ctx context.Context, iface *vpp_nat.Nat44Global_Interface) error {
	set, err := globalSet(iface)
	if err == nil {
		err = v.nat.change(func(s *natState) error {
			s.interfaces = slices.DeleteFunc(s.interfaces, func(i natInterface) bool {
				return i.global && i.name == iface.GetName() && i.set == set
			})
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("removing interface %q from NAT: %w", iface.GetName(), err)
	}
	return nil
}

func globalSet(iface *vpp_nat.Nat44Global_Interface) (string, error) {
	switch {
	case iface.GetIsInside() && iface.GetOutputFeature():
		return "", vswitch.Unsupported("the output feature on an inside interface: do not set is_inside")
	case iface.GetIsInside():
		return setInside, nil
	case iface.GetOutputFeature():
		return setOutput, nil
	}
	return setOutside, nil
}

func (v nat) editGlobalInterface(name string, edit func([]string) []string) error {
	s, err := v.nat.read()
	if err != nil {
		return err
	}
	var sets []string
	for _, i := range s.interfaces {
		if i.global && i.name == name {
			sets = append(sets, i.set)
		}
	}
	sets = edit(sets)
	slices.Sort(sets)
	return v.setInterface(name, true, slices.Compact(sets))
}

func (v nat) AddGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error {
	p, err := globalPool(addr)
	if err == nil {
		err = v.setPool(p)
	}
	if err != nil {
		return fmt.Errorf("adding NAT address %s: %w", addr.GetAddress(), err)
	}
	return nil
}

func (v nat) RemoveGlobalAddress(ctx context.Context, addr *vpp_nat.Nat44Global_Address) error {
	p, err := globalPool(addr)
	if err == nil {
		err = v.nat.change(func(s *natState) error { s.removePool(p); return nil })
	}
	if err != nil {
		return fmt.Errorf("removing NAT address %s: %w", addr.GetAddress(), err)
	}
	return nil
}

func globalPool(addr *vpp_nat.Nat44Global_Address) (natPool, error) {
	ip, err := netip.ParseAddr(strings.TrimSpace(addr.GetAddress()))
	return natPool{first: ip, last: ip, vrf: addr.GetVrfId(), twice: addr.GetTwiceNat(), global: true}, err
}

const natVRFs = "NAT between VRFs: the Linux kernel translates per connection, in whichever VRF its packets are; " +
	"routes (type INTER_VRF) decide which VRFs reach each other"

func (v nat) AddVRFTable(context.Context, *vpp_nat.Nat44VrfTable) error {
	return vswitch.Unsupported("Nat44VrfTable, %s", natVRFs)
}

func (v nat) AddVRFRoute(context.Context, *vpp_nat.Nat44VrfRoute) error {
	return vswitch.Unsupported("Nat44VrfRoute, %s", natVRFs)
}

func (v nat) RemoveVRFTable(context.Context, *vpp_nat.Nat44VrfTable) error { return nil }
func (v nat) RemoveVRFRoute(context.Context, *vpp_nat.Nat44VrfRoute) error { return nil }

func (v nat) ListVRFTables(context.Context, []*vpp_nat.Nat44VrfTable) ([]*vpp_nat.Nat44VrfTable, error) {
	return nil, nil
}

func (v nat) ListVRFRoutes(context.Context, []*vpp_nat.Nat44VrfRoute) ([]*vpp_nat.Nat44VrfRoute, error) {
	return nil, nil
}
