package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"golang.org/x/sys/unix"
)

// Protocol numbers of our addresses (IFA_PROTO), routes and neighbours.
const (
	protoOurs     = 121
	protoBorrowed = 122
	protoLeased   = 123 // by DHCP: addresses and routes
)

func (v interfaces) AddAddress(_ context.Context, iface string, addr netip.Prefix) error {
	err := v.withDevice(iface, func(index int) error {
		if err := v.addOwnAddress(iface, index, addr); err != nil {
			return err
		}
		v.reg.withdraw(iface, addr, false)
		return errors.Join(v.resolveRoutes(), v.lend(iface))
	})
	if err != nil {
		return fmt.Errorf("assigning address %s to interface %q: %w", addr, iface, err)
	}
	return nil
}

func (v *VSwitch) addOwnAddress(iface string, index int, addr netip.Prefix) error {
	a := address{index: index, prefix: addr, proto: protoOurs}
	if addr.Addr().Is6() && v.made(iface) {
		a.flags = unix.IFA_F_NODAD // nobody else can have it on a device of ours
	}
	vrf, err := v.vrfOf(index, a.family())
	if err != nil {
		return err
	}
	a.flags |= withoutRoute(vrf)
	if err := v.raw.addAddress(a); exists(err) {
		if vrf != 0 && !v.isAssigned(a) {
			return fmt.Errorf("somebody else has assigned it, in VRF 0: remove it (`ip address delete`), so that it can be assigned in VRF %d", vrf)
		}
		return v.settleAddresses(index, a.family())
	} else if err != nil {
		return err
	}
	if vrf == 0 {
		return nil
	}
	return errors.Join(v.confineNew(a), v.settleAddresses(index, a.family()))
}

// isAssigned tells if we have assigned the address.
func (v *VSwitch) isAssigned(a address) bool {
	addrs, err := v.raw.addresses(a.index)
	return err == nil && slices.ContainsFunc(addrs, func(have address) bool { return have.prefix == a.prefix && have.proto == protoOurs })
}

// made tells if the device of the interface was made by us.
func (v *VSwitch) made(iface string) bool {
	switch v.reg.iface(iface).GetType() {
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		return false
	}
	return true
}

func (v interfaces) DeleteAddress(_ context.Context, iface string, addr netip.Prefix) error {
	v.reg.withdraw(iface, addr, true)
	err := v.withDevice(iface, func(index int) error {
		addrs, err := v.raw.addresses(index)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.prefix == addr && a.proto == protoOurs {
				if err := v.raw.delAddress(a); err != nil {
					return err
				}
				return errors.Join(v.settleAddresses(index, a.family()), v.afterAddressRemoval(iface, index, addr.Addr()), v.lend(iface))
			}
		}
		return nil
	})
	if ignoreGone(err) != nil {
		return fmt.Errorf("removing address %s from interface %q: %w", addr, iface, err)
	}
	return nil
}

// SetUnnumbered gives the interface the addresses of the lender as host addresses
// (/32, /128). Linux forwards on a device without any address, and answers ARP for
// all its addresses on every device, so a pod's gateway resolves anyway. What
// the borrowed address is for: packets of the node itself to the pod, and ICMP
// errors, have the gateway as their source, as on VPP, instead of whichever address
// the kernel finds first. And it can be read back.
func (v interfaces) SetUnnumbered(_ context.Context, iface, lender string) error {
	v.reg.withdraw(iface, netip.Prefix{}, false)
	lent, err := v.ownAddresses(lender)
	if err == nil {
		err = v.joinVRFs(iface, lender)
	}
	if err == nil {
		err = v.withDevice(iface, func(index int) error { return v.setBorrowed(index, lent) })
	}
	if err != nil {
		return fmt.Errorf("making interface %q use the address of %q: %w", iface, lender, err)
	}
	return nil
}

// lend makes the borrowers of an interface follow a change of its addresses. Without
// any address left there is nothing to follow: then they are about to be unset.
func (v interfaces) lend(lender string) error {
	var errs []error
	for _, borrower := range v.borrowers(lender) {
		lent, err := v.ownAddresses(lender)
		if err != nil {
			return nil
		}
		err = v.withDevice(borrower, func(index int) error { return v.setBorrowed(index, lent) })
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// borrowers returns the interfaces that use the addresses of the lender.
func (v *VSwitch) borrowers(lender string) (names []string) {
	for _, key := range v.reg.keysOf(lender) {
		value, _ := v.reg.get(key)
		borrower, ok := value.(*vpp_interfaces.Interface)
		if !ok || borrower.GetUnnumbered().GetInterfaceWithIp() != lender {
			continue
		}
		if _, borrows := v.reg.assigned(borrower.GetName()); borrows {
			names = append(names, borrower.GetName())
		}
	}
	return names
}

// UnsetUnnumbered gives the borrowed addresses back.
func (v interfaces) UnsetUnnumbered(_ context.Context, iface string) error {
	v.reg.withdraw(iface, netip.Prefix{}, true)
	err := v.withDevice(iface, func(index int) error {
		if err := v.setBorrowed(index, nil); err != nil {
			return err
		}
		return v.afterAddressRemoval(iface, index, netip.IPv4Unspecified())
	})
	if ignoreGone(err) == nil {
		err = v.moveTo(iface, map[int]uint32{unix.AF_INET: 0, unix.AF_INET6: 0})
	}
	if ignoreGone(err) != nil {
		return fmt.Errorf("making interface %q numbered: %w", iface, err)
	}
	return nil
}

// setBorrowed makes the borrowed addresses of a device the given ones.
func (v *VSwitch) setBorrowed(index int, lent []netip.Addr) error {
	have, err := v.raw.addresses(index)
	if err != nil {
		return err
	}
	// Adding comes first: with its last IPv4 address a device loses its routes.
	had := map[netip.Addr]bool{}
	for _, a := range have {
		had[a.prefix.Addr()] = had[a.prefix.Addr()] || a.proto == protoBorrowed
	}
	for _, addr := range lent {
		if had[addr] {
			continue
		}
		a := address{index: index, prefix: netip.PrefixFrom(addr, addr.BitLen()), proto: protoBorrowed}
		a.flags = unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_NODAD
		if err := v.raw.addAddress(a); err != nil && !exists(err) {
			return err
		}
		if vrf, err := v.vrfOf(index, a.family()); err != nil {
			return err
		} else if vrf != 0 {
			if err := v.confineNew(a); err != nil {
				return err
			}
		}
	}
	for _, a := range have {
		if a.proto == protoBorrowed && !slices.Contains(lent, a.prefix.Addr()) {
			if err := ignoreGone(v.raw.delAddress(a)); err != nil {
				return err
			}
		}
	}
	return v.restoreVRF(index)
}

// ownAddresses returns the addresses that the interface lends: those that we
// assigned, those that it is known by, and what DHCP leased to it.
func (v *VSwitch) ownAddresses(iface string) (own []netip.Addr, err error) {
	wanted := addressTexts(v.reg.iface(iface))
	err = v.withDevice(iface, func(index int) error {
		addrs, err := v.raw.addresses(index)
		if err != nil {
			return err
		}
		own = nil
		for _, a := range addrs {
			if a.isOf(wanted) || a.proto == protoLeased {
				own = append(own, a.prefix.Addr())
			}
		}
		return nil
	})
	if err == nil && len(own) == 0 {
		err = fmt.Errorf("interface %q has no address to lend", iface)
	}
	return own, err
}

// isOf tells if the address is to be seen as one of an interface: we assigned it,
// or somebody else did and the interface is wanted with it.
func (a address) isOf(wanted map[netip.Prefix]bool) bool {
	return a.proto == protoOurs || a.proto != protoBorrowed && a.proto != protoLeased && wanted[a.prefix]
}

// addressTexts returns the addresses that a value asks for.
func addressTexts(iface *vpp_interfaces.Interface) map[netip.Prefix]bool {
	wanted := map[netip.Prefix]bool{}
	for _, text := range iface.GetIpAddresses() {
		if addr, err := netip.ParsePrefix(text); err == nil {
			wanted[addr] = true
		}
	}
	return wanted
}
