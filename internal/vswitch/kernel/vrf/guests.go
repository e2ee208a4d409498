package vrf

import (
	"errors"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A foreign device with foreign addresses or routes becomes a guest of its VRF: in the VRF device,
// the kernel would move the addresses out of VRF 0 and delete the routes. Instead, rules lead its
// packets to the table of the VRF device, and marks lead replies back:
//
//	90           iif eth0, oif eth0, fwmark 0x79000005 lookup 121000005

func (v *Driver) admit(iface string, link netlink.Link, vrf uint32) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	err := v.NS.Run(func() error { return namespace.EnsureSysctl("ipv4/conf/"+name+"/src_valid_mark", "1") })
	if err != nil {
		return err
	}
	for _, family := range ipFamilies {
		if v.rules.lastState(family).guests[name] == vrf {
			continue
		}
		if err := v.rules.answerInVRFs(family); err != nil {
			return err
		}
		err := v.rules.edit(family, func(s *ruleState) { s.guests[name] = vrf })
		if family == unix.AF_INET6 {
			err = ignoreUnsupported(err)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(v.rules.writeMarks(), v.RestoreVRF(index))
}

// dismiss reverses admit. Our addresses return to VRF 0, or to the VRF device that the device is in.
// It also completes an interrupted dismissal.
func (v *Driver) dismiss(link netlink.Link) error {
	if own.IsOurs(link) {
		return nil
	}
	name, index := link.Attrs().Name, link.Attrs().Index
	for _, family := range ipFamilies {
		if v.rules.lastState(family).guests[name] == 0 {
			continue
		}
		if err := v.rules.edit(family, func(s *ruleState) { delete(s.guests, name) }); err != nil {
			return err
		}
	}
	errs := []error{v.rules.writeMarks()}
	for _, family := range ipFamilies {
		errs = append(errs, rtnl.IgnoreGone(v.SettleAddresses(index, family)))
	}
	return errors.Join(errs...)
}

func (v *Driver) guestOf(link netlink.Link) uint32 {
	return v.rules.lastState(unix.AF_INET).guests[link.Attrs().Name]
}

// Confined returns the VRF in which the driver must keep a device's addresses; 0 if the kernel does.
func (v *Driver) Confined(index, family int) (uint32, error) { return v.rules.confined(index, family) }

// ConfineNew removes the routes that the kernel adds to VRF 0 for a new address of a guest.
func (v *Driver) ConfineNew(a rtnl.Address) error { return v.rules.confineNew(a) }

// RestoreVRF sets the routes of a guest's addresses after the device was down.
func (v *Driver) RestoreVRF(index int) error {
	var errs []error
	for _, family := range ipFamilies {
		vrf, err := v.Confined(index, family)
		if err == nil && vrf != 0 {
			err = v.rules.settle(index, family, vrf)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
