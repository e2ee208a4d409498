package vrf

import (
	"errors"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A foreign device with foreign addresses or routes becomes a guest of its VRF: in the VRF device,
// the kernel would move the addresses out of VRF 0 and delete the routes. Instead, rules lead its
// packets to the table of the VRF device, and marks lead replies back, as in the emulation:
//
//	90           iif eth0, oif eth0, fwmark 0x79000005 lookup 121000005

func (v *devices) admit(iface string, link netlink.Link, vrf uint32) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	err := v.NS.Run(func() error { return namespace.EnsureSysctl("ipv4/conf/"+name+"/src_valid_mark", "1") })
	if err != nil {
		return err
	}
	for _, family := range ipFamilies {
		if v.rules.lastState(family).guests[name] == vrf {
			continue
		}
		if err := v.keepLeads(family, name); err != nil {
			return err
		}
		if err := v.rules.answerInVRFs(family); err != nil {
			return err
		}
		err := v.rules.editVRFs(family, func(s *ruleState) error {
			s.forget(name)
			s.guests[name] = vrf
			return nil
		})
		if family == unix.AF_INET6 {
			err = ignoreUnsupported(err)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(v.rules.writeMarks(), v.shed(), v.rules.RestoreVRF(index))
}

// dismiss reverses admit. Our addresses return to VRF 0, or to the VRF device that the device is in.
func (v *devices) dismiss(link netlink.Link) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	was := false
	for _, family := range ipFamilies {
		if v.rules.lastState(family).guests[name] == 0 {
			continue
		}
		was = true
		if err := v.rules.editVRFs(family, func(s *ruleState) error { delete(s.guests, name); return nil }); err != nil {
			return err
		}
	}
	if !was {
		return nil
	}
	errs := []error{v.rules.writeMarks()}
	for _, family := range ipFamilies {
		errs = append(errs, rtnl.IgnoreGone(v.SettleAddresses(index, family)))
	}
	return errors.Join(errs...)
}

func (v *devices) guestOf(link netlink.Link) uint32 {
	return v.rules.lastState(unix.AF_INET).guests[link.Attrs().Name]
}

// Confined: the kernel confines addresses in VRF devices, but not those of guests.
func (v *devices) Confined(index, family int) (uint32, error) {
	if !v.UsesVRFs() || len(v.rules.lastState(family).guests) == 0 {
		return 0, nil
	}
	link, err := v.Net.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	return v.rules.lastState(family).guests[link.Attrs().Name], nil
}

func (v *devices) ConfineNew(a rtnl.Address) error { return v.rules.ConfineNew(a) }

func (v *devices) RestoreVRF(index int) error {
	var errs []error
	for _, family := range ipFamilies {
		vrf, err := v.Confined(index, family)
		if err == nil && vrf != 0 {
			err = v.rules.SettleAddresses(index, family)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
