package vrf

import (
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type deviceView struct {
	vrfs map[string]uint32
	// ports are the devices in other devices of ours, which are in no VRF.
	ports map[string]bool
	// emulated holds the devices that policy rules of an earlier version lead to VRFs.
	emulated map[string]bool
	guests   map[string]uint32
	rules    ruleView
}

func (v *devices) ViewVRFs() (View, error) {
	if !v.UsesVRFs() {
		return deviceView{}, nil
	}
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	view := deviceView{vrfs: map[string]uint32{}, ports: map[string]bool{}, emulated: map[string]bool{}, guests: map[string]uint32{}}
	all := devicesIn(devs)
	for _, link := range devs.ByIndex {
		attrs := link.Attrs()
		if d, ok := all[attrs.MasterIndex]; ok {
			view.vrfs[attrs.Name] = d.vrf
		} else if master := devs.ByIndex[attrs.MasterIndex]; master != nil && own.IsOurs(master) {
			view.ports[attrs.Name] = true
		}
	}
	for _, family := range ipFamilies {
		s, _, err := v.rules.readVRFs(family)
		if err != nil {
			return nil, err
		}
		for device := range s.members {
			view.emulated[device] = true
		}
		for device := range s.isolated {
			view.emulated[device] = true
		}
		for device, vrf := range s.guests {
			view.guests[device] = vrf
		}
	}
	if len(view.guests) > 0 {
		view.rules, err = v.rules.view()
	}
	return view, err
}

// Of returns a VRF that no value uses for remains of an earlier version, so that the interface is
// updated.
func (w deviceView) Of(device string, wanted uint32) uint32 {
	switch {
	case w.emulated[device]:
		return own.MaxVRF + 1
	case w.ports[device]:
		return wanted
	case w.guests[device] != 0:
		return w.rules.of(device)
	}
	return w.vrfs[device]
}

func (w deviceView) Intact(link netlink.Link, a rtnl.Address) bool {
	if w.guests[link.Attrs().Name] != 0 {
		return w.rules.Intact(link, a)
	}
	return !w.emulated[link.Attrs().Name] && (a.Proto != own.ProtoOurs || a.Flags&unix.IFA_F_NOPREFIXROUTE == 0)
}

func (w deviceView) Together(device, lender string) bool {
	return !w.emulated[device] && w.vrfs[device]+w.guests[device] == w.vrfs[lender]+w.guests[lender]
}

func (w deviceView) Leaks(link netlink.Link, a rtnl.Address) bool {
	return w.guests[link.Attrs().Name] != 0 && w.rules.Leaks(link, a)
}
