package vrf

import (
	"net"
	"slices"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type ruleView struct {
	used   bool
	states map[int]*ruleState
	rules  map[int]ruleSet
	marks  markState
	placed map[placedRoute]bool
	local  map[int][]placedRoute
}

func (v *emulation) ViewVRFs() (View, error) { return v.view() }

func (v *emulation) view() (view ruleView, err error) {
	if !v.UsesVRFs() {
		return view, nil
	}
	view = ruleView{used: true, states: map[int]*ruleState{}, rules: map[int]ruleSet{}, placed: map[placedRoute]bool{}, local: map[int][]placedRoute{}}
	for _, family := range ipFamilies {
		if view.states[family], view.rules[family], err = v.readVRFs(family); err != nil {
			return view, err
		}
		found, err := placed(v.Net, family, 0, 0, own.ProtoVRF)
		if err != nil {
			return view, err
		}
		for _, r := range found {
			view.placed[r] = true
		}
		if found, err = placed(v.Net, family, 0, unix.RT_TABLE_LOCAL, 0); err != nil {
			return view, err
		}
		for _, r := range found {
			view.local[r.index] = append(view.local[r.index], r)
		}
	}
	view.marks, err = v.readMarks()
	return view, err
}

func (w ruleView) Of(device string, _ uint32) uint32 { return w.of(device) }

func (w ruleView) of(device string) (vrf uint32) {
	if !w.used {
		return 0
	}
	if vrf = w.states[unix.AF_INET].guests[device]; vrf != 0 {
		return vrf
	}
	vrf = w.states[unix.AF_INET].isolated[device]
	if w.rules[unix.AF_INET6] != nil && w.states[unix.AF_INET6].isolated[device] != vrf {
		return 0
	}
	return vrf
}

func (w ruleView) Intact(link netlink.Link, a rtnl.Address) bool {
	if !w.used {
		return true
	}
	device, up := link.Attrs().Name, link.Attrs().Flags&net.FlagUp != 0
	vrf := w.of(device)
	if vrf == 0 {
		return w.states[a.Family()].members[device] == 0 && (a.Proto != own.ProtoOurs || a.Flags&unix.IFA_F_NOPREFIXROUTE == 0)
	}
	if !w.leads(a.Family(), device, vrf) {
		return false
	}
	for _, r := range routesOfAddress(link.Attrs().Index, a.Prefix, vrf) {
		if !w.placed[r] && (up || r.typ == unix.RTN_LOCAL) {
			return false
		}
	}
	return !w.Leaks(link, a)
}

// leads reports whether all packets of an IP version from a device reach the VRF.
func (w ruleView) leads(family int, device string, vrf uint32) bool {
	s := w.states[family]
	if s.vrfOf(device) != vrf || !w.marks.has(family, device, vrf) {
		return false
	}
	for _, r := range s.into(device) {
		if !w.rules[family][r] {
			return false
		}
	}
	return true
}

func (w ruleView) Together(device, lender string) bool {
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

func (w ruleView) Leaks(link netlink.Link, a rtnl.Address) bool {
	if !w.used || w.of(link.Attrs().Name) == 0 || a.Proto != own.ProtoOurs && a.Proto != own.ProtoBorrowed {
		return false
	}
	return slices.ContainsFunc(w.local[a.Index], func(r placedRoute) bool { return r.madeFor(a) })
}
