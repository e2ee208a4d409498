package vrf

import (
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// View is the state of VRFs for listing interfaces.
type View struct {
	vrfs map[string]uint32
	// ports are the devices in other devices of ours, which are in no VRF.
	ports  map[string]bool
	guests guestView
}

// ViewVRFs reads the state for listing interfaces.
func (v *Driver) ViewVRFs() (view View, err error) {
	if !v.UsesVRFs() {
		return view, nil
	}
	devs, err := v.Devices()
	if err != nil {
		return view, err
	}
	view.vrfs, view.ports = map[string]uint32{}, map[string]bool{}
	all := devicesIn(devs)
	for _, link := range devs.ByIndex {
		attrs := link.Attrs()
		if d, ok := all[attrs.MasterIndex]; ok {
			view.vrfs[attrs.Name] = d.vrf
		} else if master := devs.ByIndex[attrs.MasterIndex]; master != nil && own.IsOurs(master) {
			view.ports[attrs.Name] = true
		}
	}
	view.guests, err = v.rules.view()
	return view, err
}

// Of returns the VRF that a device is meant for; 0 if VRF 0 may get its packets. wanted is the VRF of
// its value.
func (w View) Of(device string, wanted uint32) uint32 {
	if w.ports[device] {
		return wanted
	}
	return w.vrf(device)
}

// Intact reports whether an address is in the VRF that its device is meant for.
func (w View) Intact(link netlink.Link, a rtnl.Address) bool {
	if w.guests.has(link.Attrs().Name) {
		return w.guests.intact(link, a)
	}
	return a.Proto != own.ProtoOurs || a.Flags&unix.IFA_F_NOPREFIXROUTE == 0
}

// Together reports whether a device is in the VRF of the lender of its addresses.
func (w View) Together(device, lender string) bool { return w.vrf(device) == w.vrf(lender) }

func (w View) vrf(device string) uint32 {
	if w.guests.has(device) {
		return w.guests.of(device)
	}
	return w.vrfs[device]
}

// Leaks reports whether our address of a device in a VRF is in VRF 0, too.
func (w View) Leaks(link netlink.Link, a rtnl.Address) bool {
	return w.guests.has(link.Attrs().Name) && w.guests.leaks(link, a)
}
