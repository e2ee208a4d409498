package links

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"golang.org/x/sys/unix"
)

func (v interfaces) AddAddress(_ context.Context, iface string, addr netip.Prefix) error {
	if addr.Addr().Is6() && v.Made(iface) {
		if err := v.EnableForwarding6(); err != nil {
			return err
		}
	}
	err := v.WithDevice(iface, func(index int) error {
		if err := v.addOwnAddress(iface, index, addr); err != nil {
			return err
		}
		v.Reg.Withdraw(iface, addr, false)
		return errors.Join(v.routes.ResolveRoutes(), v.lend(iface))
	})
	if err != nil {
		return fmt.Errorf("assigning address %s to interface %q: %w", addr, iface, err)
	}
	return nil
}

func (v *Driver) addOwnAddress(iface string, index int, addr netip.Prefix) error {
	a := rtnl.Address{Index: index, Prefix: addr, Proto: own.ProtoOurs}
	if addr.Addr().Is6() && v.Made(iface) {
		a.Flags = unix.IFA_F_NODAD // unique on our own devices
	}
	vrf, err := v.vrf.Confined(index, a.Family())
	if err != nil {
		return err
	}
	a.Flags |= own.WithoutRoute(vrf)
	if err := v.Net.AddAddress(a); rtnl.Exists(err) {
		if vrf != 0 && !v.isAssigned(a) {
			return fmt.Errorf("another program assigned it in VRF 0: remove it (`ip address delete`), so that it can be assigned in VRF %d", vrf)
		}
		return v.vrf.SettleAddresses(index, a.Family())
	} else if err != nil {
		return err
	}
	if vrf == 0 {
		return nil
	}
	return errors.Join(v.vrf.ConfineNew(a), v.vrf.SettleAddresses(index, a.Family()))
}

func (v *Driver) isAssigned(a rtnl.Address) bool {
	addrs, err := v.Net.Addresses(a.Index)
	return err == nil && slices.ContainsFunc(addrs, func(have rtnl.Address) bool { return have.Prefix == a.Prefix && have.Proto == own.ProtoOurs })
}

func (v interfaces) DeleteAddress(_ context.Context, iface string, addr netip.Prefix) error {
	v.Reg.Withdraw(iface, addr, true)
	err := v.WithDevice(iface, func(index int) error {
		addrs, err := v.Net.Addresses(index)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.Prefix == addr && a.Proto == own.ProtoOurs {
				if err := v.Net.DelAddress(a); err != nil {
					return err
				}
				return errors.Join(v.vrf.SettleAddresses(index, a.Family()), v.afterAddressRemoval(iface, index, addr.Addr()), v.lend(iface))
			}
		}
		return nil
	})
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("removing address %s from interface %q: %w", addr, iface, err)
	}
	return nil
}

// SetUnnumbered assigns the lender's addresses to the interface as host addresses (/32, /128).
// Linux would forward without an address on the device, and answers ARP for all its addresses on
// every device, so a pod could reach its gateway anyway. The borrowed address makes the gateway the
// source of the node's own packets to the pod and of ICMP errors, as on VPP. It also makes the
// setting readable.
func (v interfaces) SetUnnumbered(_ context.Context, iface, lender string) error {
	v.Reg.Withdraw(iface, netip.Prefix{}, false)
	lent, err := v.ownAddresses(lender)
	if err == nil {
		err = v.vrf.JoinVRFs(iface, lender)
	}
	if err == nil {
		err = v.WithDevice(iface, func(index int) error { return v.setBorrowed(index, lent) })
	}
	if err != nil {
		return fmt.Errorf("making interface %q use the address of %q: %w", iface, lender, err)
	}
	return nil
}

// lend updates the borrowers after a change of an interface's addresses. Without any address left,
// they are about to be unset.
func (v interfaces) lend(lender string) error {
	var errs []error
	for _, borrower := range v.Borrowers(lender) {
		lent, err := v.ownAddresses(lender)
		if err != nil {
			return nil
		}
		err = v.WithDevice(borrower, func(index int) error { return v.setBorrowed(index, lent) })
		errs = append(errs, rtnl.IgnoreGone(err))
	}
	return errors.Join(errs...)
}

func (v interfaces) UnsetUnnumbered(_ context.Context, iface string) error {
	v.Reg.Withdraw(iface, netip.Prefix{}, true)
	err := v.WithDevice(iface, func(index int) error {
		if err := v.setBorrowed(index, nil); err != nil {
			return err
		}
		return v.afterAddressRemoval(iface, index, netip.IPv4Unspecified())
	})
	if rtnl.IgnoreGone(err) == nil {
		err = v.vrf.MoveTo(iface, map[int]uint32{unix.AF_INET: 0, unix.AF_INET6: 0})
	}
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("making interface %q numbered: %w", iface, err)
	}
	return nil
}

func (v *Driver) setBorrowed(index int, lent []netip.Addr) error {
	have, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	had := map[netip.Addr]bool{}
	for _, a := range have {
		had[a.Prefix.Addr()] = had[a.Prefix.Addr()] || a.Proto == own.ProtoBorrowed
	}
	for _, addr := range lent {
		if had[addr] {
			continue
		}
		a := rtnl.Address{Index: index, Prefix: netip.PrefixFrom(addr, addr.BitLen()), Proto: own.ProtoBorrowed}
		a.Flags = unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_NODAD
		if err := v.Net.AddAddress(a); err != nil && !rtnl.Exists(err) {
			return err
		}
		if vrf, err := v.vrf.Confined(index, a.Family()); err != nil {
			return err
		} else if vrf != 0 {
			if err := v.vrf.ConfineNew(a); err != nil {
				return err
			}
		}
	}
	for _, a := range have {
		if a.Proto == own.ProtoBorrowed && !slices.Contains(lent, a.Prefix.Addr()) {
			if err := rtnl.IgnoreGone(v.Net.DelAddress(a)); err != nil {
				return err
			}
		}
	}
	return v.vrf.RestoreVRF(index)
}

// ownAddresses returns the addresses that the interface lends: the ones that we assigned, that its
// value names, or that DHCP leased.
func (v *Driver) ownAddresses(iface string) (lent []netip.Addr, err error) {
	wanted := own.AddressTexts(v.Reg.Iface(iface))
	err = v.WithDevice(iface, func(index int) error {
		addrs, err := v.Net.Addresses(index)
		if err != nil {
			return err
		}
		lent = nil
		for _, a := range addrs {
			if isOf(a, wanted) || a.Proto == own.ProtoLeased {
				lent = append(lent, a.Prefix.Addr())
			}
		}
		return nil
	})
	if err == nil && len(lent) == 0 {
		err = fmt.Errorf("interface %q has no address to lend", iface)
	}
	return lent, err
}

// isOf reports whether the address belongs to the interface: we assigned it, or it is foreign but
// requested.
func isOf(a rtnl.Address, wanted map[netip.Prefix]bool) bool {
	return a.Proto == own.ProtoOurs || a.Proto != own.ProtoBorrowed && a.Proto != own.ProtoLeased && wanted[a.Prefix]
}
