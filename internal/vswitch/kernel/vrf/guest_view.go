package vrf

import (
	"net"
	"slices"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// guestView is the state of guests for listing interfaces.
type guestView struct {
	states map[int]*ruleState
	rules  map[int]ruleSet
	marks  markState
	placed map[placedRoute]bool
	local  map[int][]placedRoute
}

// view reads the state. Without guests, it reads the rules only.
func (v *rules) view() (view guestView, err error) {
	view = guestView{states: map[int]*ruleState{}, rules: map[int]ruleSet{}, placed: map[placedRoute]bool{}, local: map[int][]placedRoute{}}
	guests := 0
	for _, family := range ipFamilies {
		if view.states[family], view.rules[family], err = v.read(family); err != nil {
			return view, err
		}
		guests += len(view.states[family].guests)
	}
	if guests == 0 {
		return view, nil
	}
	for _, family := range ipFamilies {
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

// has reports whether the device is a guest in any IP version.
func (w guestView) has(device string) bool {
	for _, s := range w.states {
		if s.guests[device] != 0 {
			return true
		}
	}
	return false
}

func (w guestView) of(device string) uint32 { return w.states[unix.AF_INET].guests[device] }

func (w guestView) intact(link netlink.Link, a rtnl.Address) bool {
	device, up := link.Attrs().Name, link.Attrs().Flags&net.FlagUp != 0
	vrf := w.of(device)
	if vrf == 0 || !w.leads(a.Family(), device, vrf) {
		return false
	}
	for _, r := range routesOfAddress(link.Attrs().Index, a.Prefix, vrf) {
		if !w.placed[r] && (up || r.typ == unix.RTN_LOCAL) {
			return false
		}
	}
	return !w.leaks(link, a)
}

// leads reports whether all packets of an IP version from a guest reach the VRF.
func (w guestView) leads(family int, device string, vrf uint32) bool {
	s := w.states[family]
	if s.guests[device] != vrf || !w.marks.has(family, device, vrf) {
		return false
	}
	for _, r := range s.into(device) {
		if !w.rules[family][r] {
			return false
		}
	}
	return true
}

func (w guestView) leaks(link netlink.Link, a rtnl.Address) bool {
	if w.of(link.Attrs().Name) == 0 || a.Proto != own.ProtoOurs && a.Proto != own.ProtoBorrowed {
		return false
	}
	return slices.ContainsFunc(w.local[a.Index], func(r placedRoute) bool { return r.madeFor(a) })
}
