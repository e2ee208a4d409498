package vrf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/vswitch/kernel/own"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"

	"github.com/contiv/contiv/kvscheduler"
	"golang.org/x/sys/unix"
)

func (v *emulation) MoveTo(iface string, vrfs map[int]uint32) error {
	device := deviceOf(v.Host, iface)
	into := uint32(0)
	for _, vrf := range vrfs {
		into = max(into, vrf)
	}
	if into == 0 && !v.UsesVRFs() {
		return nil
	}
	if into != 0 {
		if err := v.canMove(iface); err != nil {
			return err
		}
		if err := v.isolate(device, into); err != nil {
			return err
		}
	}
	for family, vrf := range vrfs {
		err := v.editVRFs(family, func(s *ruleState) error {
			if vrf == 0 {
				delete(s.members, device)
				return nil
			}
			if !s.tables[vrf] {
				return fmt.Errorf("table %d of VRF %d does not exist", own.TableOf(vrf), vrf)
			}
			s.members[device] = vrf
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := v.writeMarks(); err != nil {
		return err
	}
	if into == 0 {
		if err := v.IsolateAs(iface); err != nil {
			return err
		}
	}
	err := v.WithDevice(iface, func(index int) error {
		for family := range vrfs {
			if err := v.SettleAddresses(index, family); err != nil {
				return err
			}
		}
		return nil
	})
	if into == 0 {
		return rtnl.IgnoreGone(ignoreUnsupported(err))
	}
	return err
}

func (v *emulation) VRFsOf(iface string) (map[int]uint32, error) {
	vrfs := map[int]uint32{unix.AF_INET: 0, unix.AF_INET6: 0}
	if !v.UsesVRFs() {
		return vrfs, nil
	}
	device := deviceOf(v.Host, iface)
	for family := range vrfs {
		s, _, err := v.readVRFs(family)
		if err != nil {
			return nil, err
		}
		vrfs[family] = s.members[device]
	}
	return vrfs, nil
}

// canMove refuses interfaces that do not work in a VRF.
func (v *emulation) canMove(iface string) error {
	link, err := v.Link(iface)
	if err != nil {
		return err
	}
	if err := noCrossConnect(v.Host, iface); err != nil {
		return err
	}
	return v.NS.Run(func() error {
		return namespace.EnsureSysctl("ipv4/conf/"+link.Attrs().Name+"/src_valid_mark", "1")
	})
}

func (v *emulation) IsolateAs(iface string) error {
	if vrf := v.Reg.Iface(iface).GetVrf(); vrf != 0 {
		return v.isolate(deviceOf(v.Host, iface), vrf)
	}
	if !v.UsesVRFs() {
		return nil
	}
	device := deviceOf(v.Host, iface)
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	for _, family := range ipFamilies {
		s, _, err := v.readVRFs(family)
		if err != nil || s.members[device] != 0 {
			return err
		}
	}
	for _, family := range ipFamilies {
		if err := v.editVRFsLocked(family, func(s *ruleState) error { delete(s.isolated, device); return nil }); err != nil {
			return err
		}
	}
	return nil
}

func (v *emulation) isolate(device string, vrf uint32) error {
	for _, family := range ipFamilies {
		err := v.editVRFs(family, func(s *ruleState) error { s.isolated[device] = vrf; return nil })
		if family == unix.AF_INET6 {
			err = ignoreUnsupported(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil
	}
	return err
}

func (v *emulation) ForgetVRFs(device string) error {
	if !v.UsesVRFs() {
		return nil
	}
	for _, family := range ipFamilies {
		if err := v.editVRFs(family, func(s *ruleState) error { s.forget(device); return nil }); err != nil {
			return err
		}
	}
	return v.writeMarks()
}

func (v *emulation) Confined(index, family int) (uint32, error) {
	if !v.UsesVRFs() {
		return 0, nil
	}
	link, err := v.Net.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	s, _, err := v.readVRFs(family)
	if err != nil {
		return 0, err
	}
	return s.vrfOf(link.Attrs().Name), nil
}

// SettleAddresses sets the routes of a device's addresses as its VRF requires, and removes the
// kernel's routes from VRF 0.
func (v *emulation) SettleAddresses(index, family int) error {
	if !v.UsesVRFs() {
		return nil
	}
	v.vrf.settling.Lock()
	defer v.vrf.settling.Unlock()
	vrf, err := v.Confined(index, family)
	if err != nil {
		return err
	}
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
		if vrf != 0 {
			wanted = append(wanted, routesOfAddress(index, a.Prefix, vrf)...)
		}
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
	if vrf == 0 {
		return nil
	}
	_, err = v.confine(index, family)
	return err
}

// flagAddress reassigns an address that moves into or out of VRF 0. The flag that keeps the kernel
// from creating its routes cannot change later.
func (v *emulation) flagAddress(a rtnl.Address, vrf uint32) error {
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
		return v.ConfineNew(a)
	}
	return nil
}

// leaked returns the kernel's routes in the table local for our addresses of a device in a VRF.
func (v *emulation) leaked(index, family int) ([]placedRoute, error) {
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

func (v *emulation) confine(index, family int) (removed []placedRoute, err error) {
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

// ConfineNew removes the routes that the kernel adds for a new address. For an IPv6 address, the
// kernel adds them shortly after, if the device is up and duplicate address detection is off;
// otherwise Watch detects them.
func (v *emulation) ConfineNew(a rtnl.Address) error {
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

// RestoreVRF restores the routes lost while a device was down, and removes the routes that the
// kernel added again.
func (v *emulation) RestoreVRF(index int) error {
	return errors.Join(v.SettleAddresses(index, unix.AF_INET), v.SettleAddresses(index, unix.AF_INET6))
}
