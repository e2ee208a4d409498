package kernel

import (
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vrfView is what is known of VRFs when interfaces are listed. The zero value: all are
// in VRF 0.
type vrfView struct {
	used   bool
	states map[int]*vrfState
	rules  map[int]ruleSet // by IP version, nil: there are none at all
	marks  markState
	placed map[placedRoute]bool
}

func (v *VSwitch) viewVRFs() (view vrfView, err error) {
	if !v.usesVRFs() {
		return view, nil
	}
	view = vrfView{used: true, states: map[int]*vrfState{}, rules: map[int]ruleSet{}, placed: map[placedRoute]bool{}}
	for _, family := range ipFamilies {
		if view.states[family], view.rules[family], err = v.readVRFs(family); err != nil {
			return view, err
		}
		placed, err := v.raw.placed(family, 0, 0, protoVRF)
		if err != nil {
			return view, err
		}
		for _, r := range placed {
			view.placed[r] = true
		}
	}
	view.marks, err = v.readMarks()
	return view, err
}

// of returns the VRF that a device is meant for; 0 if VRF 0 may get its packets.
func (w vrfView) of(device string) (vrf uint32) {
	if !w.used {
		return 0
	}
	vrf = w.states[unix.AF_INET].isolated[device]
	if w.rules[unix.AF_INET6] != nil && w.states[unix.AF_INET6].isolated[device] != vrf {
		return 0
	}
	return vrf
}

// intact tells if an address of a device is in the VRF that the device is meant for.
func (w vrfView) intact(link netlink.Link, a address) bool {
	if !w.used {
		return true
	}
	device, up := link.Attrs().Name, link.Attrs().Flags&net.FlagUp != 0
	vrf := w.of(device)
	if vrf == 0 {
		return w.states[a.family()].members[device] == 0 && (a.proto != protoOurs || a.flags&unix.IFA_F_NOPREFIXROUTE == 0)
	}
	if !w.leads(a.family(), device, vrf) {
		return false
	}
	for _, r := range routesOfAddress(link.Attrs().Index, a.prefix, vrf) {
		if !w.placed[r] && (up || r.typ == unix.RTN_LOCAL) {
			return false
		}
	}
	return true
}

// leads tells if all that a device receives of an IP version gets to the VRF.
func (w vrfView) leads(family int, device string, vrf uint32) bool {
	s := w.states[family]
	if s.members[device] != vrf || !w.marks.has(family, device, vrf) {
		return false
	}
	for _, r := range s.into(device) {
		if !w.rules[family][r] {
			return false
		}
	}
	return true
}

// together tells if two devices are in the same VRFs.
func (w vrfView) together(device, lender string) bool {
	if !w.used {
		return true
	}
	for family, s := range w.states {
		vrf := s.members[lender]
		if vrf != 0 && w.of(device) == 0 {
			return false
		}
		if vrf == 0 && s.members[device] != 0 || vrf != 0 && !w.leads(family, device, vrf) {
			return false
		}
	}
	return true
}
