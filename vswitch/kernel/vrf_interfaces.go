package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch"
	"golang.org/x/sys/unix"
)

// SetVRF leads what the device receives to the table of the VRF.
func (v interfaces) SetVRF(_ context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	vrfs := map[int]uint32{}
	for _, family := range familiesOf(versions) {
		vrfs[family] = vrf
	}
	if err := errors.Join(v.moveTo(iface, vrfs), v.moveBorrowers(iface)); err != nil {
		return fmt.Errorf("moving interface %q into VRF %d: %w", iface, vrf, err)
	}
	return nil
}

// UnsetVRF leaves the device isolated for as long as the interface is to be in
// another VRF than 0.
func (v interfaces) UnsetVRF(_ context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	vrfs, err := v.vrfsOf(iface)
	for family, is := range vrfs {
		if is != vrf || !slices.Contains(familiesOf(versions), family) {
			delete(vrfs, family) // it is in another one already
		} else {
			vrfs[family] = 0
		}
	}
	if err == nil {
		err = errors.Join(v.moveTo(iface, vrfs), v.moveBorrowers(iface))
	}
	if err != nil {
		return fmt.Errorf("moving interface %q out of VRF %d: %w", iface, vrf, err)
	}
	return nil
}

func familiesOf(versions vswitch.IPVersions) (families []int) {
	if versions.V4 {
		families = append(families, unix.AF_INET)
	}
	if versions.V6 {
		families = append(families, unix.AF_INET6)
	}
	return families
}

// moveTo moves the interface into a VRF for each IP version.
func (v *VSwitch) moveTo(iface string, vrfs map[int]uint32) error {
	device := v.deviceOf(iface)
	into := uint32(0)
	for _, vrf := range vrfs {
		into = max(into, vrf)
	}
	if into == 0 && !v.usesVRFs() {
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
		err := v.editVRFs(family, func(s *vrfState) error {
			if vrf == 0 {
				delete(s.members, device)
				return nil
			}
			if !s.tables[vrf] {
				return fmt.Errorf("table %d of VRF %d does not exist", tableOf(vrf), vrf)
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
		if err := v.isolateAs(iface); err != nil {
			return err
		}
	}
	err := v.withDevice(iface, func(index int) error {
		for family := range vrfs {
			if err := v.settleAddresses(index, family); err != nil {
				return err
			}
		}
		return nil
	})
	if into == 0 {
		return ignoreGone(ignoreUnsupported(err))
	}
	return err
}

// joinVRFs moves an interface that borrows addresses into the VRFs of its lender.
func (v *VSwitch) joinVRFs(iface, lender string) error {
	if !v.usesVRFs() {
		return nil
	}
	vrfs, err := v.vrfsOf(lender)
	if err != nil {
		return err
	}
	return v.moveTo(iface, vrfs)
}

// vrfsOf returns the VRFs of an interface by IP version.
func (v *VSwitch) vrfsOf(iface string) (map[int]uint32, error) {
	vrfs := map[int]uint32{unix.AF_INET: 0, unix.AF_INET6: 0}
	if !v.usesVRFs() {
		return vrfs, nil
	}
	device := v.deviceOf(iface)
	for family := range vrfs {
		s, _, err := v.readVRFs(family)
		if err != nil {
			return nil, err
		}
		vrfs[family] = s.members[device]
	}
	return vrfs, nil
}

// moveBorrowers makes those that borrow the addresses of an interface follow it.
func (v *VSwitch) moveBorrowers(lender string) error {
	if !v.usesVRFs() {
		return nil
	}
	var errs []error
	for _, borrower := range v.borrowers(lender) {
		errs = append(errs, ignoreGone(v.joinVRFs(borrower, lender)))
	}
	return errors.Join(errs...)
}

// canMove refuses what would not work in a VRF.
func (v *VSwitch) canMove(iface string) error {
	link, err := v.link(iface)
	if err != nil {
		return err
	}
	for _, key := range v.reg.keysOf(iface) {
		value, _ := v.reg.get(key)
		if x, ok := value.(*vpp_l3.L3XConnect); ok && x.GetInterface() == iface {
			return crossConnectInVRF()
		}
	}
	return v.ns.run(func() error {
		return ensureSysctl("ipv4/conf/"+link.Attrs().Name+"/src_valid_mark", "1")
	})
}

func crossConnectInVRF() error {
	return vswitch.Unsupported("an L3 cross-connect of an interface in a VRF other than 0: give the VRF a route for all packets instead")
}

// deviceOf returns the name of the device of an interface, which may not exist (yet).
func (v *VSwitch) deviceOf(iface string) string {
	if link, err := v.link(iface); err == nil {
		return link.Attrs().Name
	}
	return deviceName(devInterface, iface)
}

// isolateAs keeps VRF 0 from getting packets of an interface that is meant for another
// one: before the interface is there, without an address, and for an IP version that
// it has no address of.
func (v *VSwitch) isolateAs(iface string) error {
	if vrf := v.reg.iface(iface).GetVrf(); vrf != 0 {
		return v.isolate(v.deviceOf(iface), vrf)
	}
	if !v.usesVRFs() {
		return nil
	}
	device := v.deviceOf(iface)
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	for _, family := range ipFamilies {
		s, _, err := v.readVRFs(family)
		if err != nil || s.members[device] != 0 {
			return err
		}
	}
	for _, family := range ipFamilies {
		if err := v.editVRFsLocked(family, func(s *vrfState) error { delete(s.isolated, device); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// isolate: where there is no IPv6, there is nothing to keep out.
func (v *VSwitch) isolate(device string, vrf uint32) error {
	for _, family := range ipFamilies {
		err := v.editVRFs(family, func(s *vrfState) error { s.isolated[device] = vrf; return nil })
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

// forgetVRFs removes the rules of an interface that goes.
func (v *VSwitch) forgetVRFs(device string) error {
	if !v.usesVRFs() {
		return nil
	}
	for _, family := range ipFamilies {
		if err := v.editVRFs(family, func(s *vrfState) error { s.forget(device); return nil }); err != nil {
			return err
		}
	}
	return v.writeMarks()
}

// vrfOf returns the VRF of a device.
func (v *VSwitch) vrfOf(index, family int) (uint32, error) {
	if !v.usesVRFs() {
		return 0, nil
	}
	link, err := v.nl.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	s, _, err := v.readVRFs(family)
	if err != nil {
		return 0, err
	}
	return s.members[link.Attrs().Name], nil
}

// settleAddresses makes the routes of the addresses of a device those that they need
// in its VRF; and takes those away from VRF 0 that the kernel makes.
func (v *VSwitch) settleAddresses(index, family int) error {
	if !v.usesVRFs() {
		return nil
	}
	v.vrf.settling.Lock()
	defer v.vrf.settling.Unlock()
	vrf, err := v.vrfOf(index, family)
	if err != nil {
		return err
	}
	have, err := v.raw.placed(family, index, 0, protoVRF)
	if err != nil {
		return fmt.Errorf("reading the routes of addresses in VRFs: %w", err)
	}
	addrs, err := v.raw.addresses(index)
	if err != nil {
		return err
	}
	var wanted []placedRoute // the addresses before what they are the source of
	for _, a := range addrs {
		if a.proto != protoOurs || a.family() != family {
			continue
		}
		if err := v.flagAddress(a, vrf); err != nil {
			return err
		}
		if vrf != 0 {
			wanted = append(wanted, routesOfAddress(index, a.prefix, vrf)...)
		}
	}
	for _, r := range have {
		if slices.Contains(wanted, r) {
			continue
		}
		if err := ignoreGone(v.raw.delPlaced(r)); err != nil {
			return fmt.Errorf("deleting the route to %s from the table of the VRF: %w", r.dst, err)
		}
	}
	for _, r := range wanted {
		if slices.Contains(have, r) {
			continue
		}
		err := v.raw.addPlaced(r)
		if err != nil && !exists(err) && !errors.Is(err, unix.ENETDOWN) { // made when the device is enabled
			return fmt.Errorf("adding the route to %s to the table of VRF %d: %w", r.dst, vrf, err)
		}
	}
	if vrf == 0 {
		return nil
	}
	_, err = v.confine(index, family)
	return err
}

// flagAddress assigns an address again that is there from another VRF, if one of the
// two is VRF 0: whether the kernel makes routes of it cannot be changed.
func (v *VSwitch) flagAddress(a address, vrf uint32) error {
	if (vrf != 0) == (a.flags&unix.IFA_F_NOPREFIXROUTE != 0) {
		return nil
	}
	if err := ignoreGone(v.raw.delAddress(a)); err != nil {
		return err
	}
	a.flags = a.flags&unix.IFA_F_NODAD | withoutRoute(vrf)
	if err := v.raw.addAddress(a); err != nil && !exists(err) {
		return err
	}
	if vrf != 0 {
		return v.confineNew(a)
	}
	return nil
}

// withoutRoute keeps the kernel from making a route in the main table.
func withoutRoute(vrf uint32) uint32 {
	if vrf == 0 {
		return 0
	}
	return unix.IFA_F_NOPREFIXROUTE
}

// confine removes what the kernel adds to the table local for our addresses of a
// device in a VRF: they are none of VRF 0.
func (v *VSwitch) confine(index, family int) (removed []placedRoute, err error) {
	addrs, err := v.raw.addresses(index)
	if err != nil {
		return nil, err
	}
	addrs = slices.DeleteFunc(addrs, func(a address) bool { return a.proto != protoOurs && a.proto != protoBorrowed })
	found, err := v.raw.placed(family, index, unix.RT_TABLE_LOCAL, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the table local: %w", err)
	}
	for _, r := range found {
		if !slices.ContainsFunc(addrs, r.madeFor) {
			continue
		}
		if err := ignoreGone(v.raw.delPlaced(r)); err != nil {
			return removed, fmt.Errorf("deleting %s from the table local: %w", r.dst, err)
		}
		removed = append(removed, r)
	}
	return removed, nil
}

// confineNew removes what the kernel adds for a new address. For one of IPv6 it does
// so a moment later, if the device is up and nobody is asked for duplicates before;
// else Watch sees it.
func (v *VSwitch) confineNew(a address) error {
	own := func(r placedRoute) bool { return r.typ == unix.RTN_LOCAL && r.dst.Addr() == a.prefix.Addr() }
	link, err := v.nl.LinkByIndex(a.index)
	if err != nil {
		return err
	}
	soon := a.prefix.Addr().Is6() && a.flags&unix.IFA_F_NODAD != 0 && link.Attrs().RawFlags&unix.IFF_UP != 0
	for attempt := 0; ; attempt++ {
		removed, err := v.confine(a.index, a.family())
		if err != nil || !soon || slices.ContainsFunc(removed, own) || attempt == 50 {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// restoreVRF puts back what went when a device was down, and takes away again what
// the kernel has put back.
func (v *VSwitch) restoreVRF(index int) error {
	return errors.Join(v.settleAddresses(index, unix.AF_INET), v.settleAddresses(index, unix.AF_INET6))
}
