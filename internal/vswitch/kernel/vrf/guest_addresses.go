package vrf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"golang.org/x/sys/unix"
)

// confined returns the VRF of a guest; 0 for other devices.
func (v *rules) confined(index, family int) (uint32, error) {
	s := v.lastState(family)
	if len(s.guests) == 0 {
		return 0, nil
	}
	link, err := v.Net.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	return s.guests[link.Attrs().Name], nil
}

// settle adds the routes of a guest's addresses to the table of its VRF, and removes the kernel's
// routes from VRF 0.
func (v *rules) settle(index, family int, vrf uint32) error {
	v.settling.Lock()
	defer v.settling.Unlock()
	have, err := placed(v.Net, family, index, 0, own.ProtoVRF)
	if err != nil {
		return fmt.Errorf("reading the routes of addresses in VRFs: %w", err)
	}
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	var wanted []placedRoute // addresses before the routes that use them as source
	for _, a := range addrs {
		if a.Proto != own.ProtoOurs || a.Family() != family {
			continue
		}
		if err := v.flagAddress(a, vrf); err != nil {
			return err
		}
		wanted = append(wanted, routesOfAddress(index, a.Prefix, vrf)...)
	}
	for _, r := range have {
		if slices.Contains(wanted, r) {
			continue
		}
		if err := rtnl.IgnoreGone(delPlaced(v.Net, r)); err != nil {
			return fmt.Errorf("deleting the route to %s from the table of the VRF: %w", r.dst, err)
		}
	}
	for _, r := range wanted {
		if slices.Contains(have, r) {
			continue
		}
		err := addPlaced(v.Net, r)
		if err != nil && !rtnl.Exists(err) && !errors.Is(err, unix.ENETDOWN) { // created when the device is enabled
			return fmt.Errorf("adding the route to %s to the table of VRF %d: %w", r.dst, vrf, err)
		}
	}
	_, err = v.confine(index, family)
	return err
}

// flagAddress reassigns an address that moves into or out of VRF 0. The flag that keeps the kernel
// from creating its routes cannot change later.
func (v *rules) flagAddress(a rtnl.Address, vrf uint32) error {
	if (vrf != 0) == (a.Flags&unix.IFA_F_NOPREFIXROUTE != 0) {
		return nil
	}
	if err := rtnl.IgnoreGone(v.Net.DelAddress(a)); err != nil {
		return err
	}
	a.Flags = a.Flags&unix.IFA_F_NODAD | own.WithoutRoute(vrf)
	if err := v.Net.AddAddress(a); err != nil && !rtnl.Exists(err) {
		return err
	}
	if vrf != 0 {
		return v.confineNew(a)
	}
	return nil
}

// leaked returns the kernel's routes in the table local for our addresses of a device in a VRF.
func (v *rules) leaked(index, family int) ([]placedRoute, error) {
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return nil, err
	}
	addrs = slices.DeleteFunc(addrs, func(a rtnl.Address) bool { return a.Proto != own.ProtoOurs && a.Proto != own.ProtoBorrowed })
	found, err := placed(v.Net, family, index, unix.RT_TABLE_LOCAL, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the table local: %w", err)
	}
	return slices.DeleteFunc(found, func(r placedRoute) bool { return !slices.ContainsFunc(addrs, r.madeFor) }), nil
}

func (v *rules) confine(index, family int) (removed []placedRoute, err error) {
	found, err := v.leaked(index, family)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if err := rtnl.IgnoreGone(delPlaced(v.Net, r)); err != nil {
			return removed, fmt.Errorf("deleting %s from the table local: %w", r.dst, err)
		}
		removed = append(removed, r)
	}
	return removed, nil
}

// confineNew removes the routes that the kernel adds for a new address. For an IPv6 address, the
// kernel adds them shortly after, if the device is up and duplicate address detection is off;
// otherwise Watch detects them.
func (v *rules) confineNew(a rtnl.Address) error {
	own := func(r placedRoute) bool { return r.typ == unix.RTN_LOCAL && r.dst.Addr() == a.Prefix.Addr() }
	link, err := v.Net.LinkByIndex(a.Index)
	if err != nil {
		return err
	}
	soon := a.Prefix.Addr().Is6() && a.Flags&unix.IFA_F_NODAD != 0 && link.Attrs().RawFlags&unix.IFF_UP != 0
	for attempt := 0; ; attempt++ {
		removed, err := v.confine(a.Index, a.Family())
		if err != nil || !soon || slices.ContainsFunc(removed, own) || attempt == 50 {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}
