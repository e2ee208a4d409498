package vrf

import (
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LeadAway adds the rules to the other VRF before the throw route.
func (v *emulation) LeadAway(route InterRoute, to uint32) error {
	return v.editVRFs(rtnl.Family(route.Dst.Addr()), func(s *ruleState) error { s.inter[route] = to; return nil })
}

// LeadBack removes the rules after the throw route.
func (v *emulation) LeadBack(route InterRoute) error {
	if !v.UsesVRFs() {
		return nil
	}
	return v.editVRFs(rtnl.Family(route.Dst.Addr()), func(s *ruleState) error { delete(s.inter, route); return nil })
}

func (v *emulation) DeviceTo(uint32) (int, error) { return 0, nil }

func (v *emulation) LookupIn(vrf uint32) *netlink.RouteGetOptions {
	return &netlink.RouteGetOptions{Mark: mark | vrf}
}

type ruleLeads map[InterRoute]uint32

func (v *emulation) Leads() (Leads, error) {
	all := ruleLeads{}
	if !v.UsesVRFs() {
		return all, nil
	}
	for _, family := range ipFamilies {
		s, _, err := v.readVRFs(family)
		if err != nil {
			return nil, err
		}
		for route, to := range s.inter {
			all[route] = to
		}
	}
	return all, nil
}

func (all ruleLeads) Of(r *netlink.Route, vrf uint32) (to uint32, leads, intact bool) {
	id := InterRoute{vrf, own.Destination(r)}
	if r.Type != unix.RTN_THROW {
		return 0, false, false
	}
	to, intact = all[id]
	delete(all, id)
	return to, true, intact
}

func (all ruleLeads) Rest() map[InterRoute]uint32 { return all }

// Sweep does nothing: ForgetVRFs removes the rules.
func (v *emulation) Sweep() error { return nil }
