package vrf

import (
	"fmt"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (v *devices) LeadAway(InterRoute, uint32) error { return nil }

// LeadBack removes rules of an earlier version.
func (v *devices) LeadBack(route InterRoute) error { return v.rules.LeadBack(route) }

func (v *devices) DeviceTo(vrf uint32) (int, error) {
	if vrf == 0 {
		return 0, nil
	}
	d, err := v.find(vrf)
	return d.index, err
}

func (v *devices) LookupIn(vrf uint32) *netlink.RouteGetOptions {
	return &netlink.RouteGetOptions{Oif: own.VRFDeviceName(vrf)}
}

// deviceLeads holds the target VRFs of routes, by VRF device. Routes of an earlier version depend
// on its rules.
type deviceLeads struct {
	devices map[int]device
	rules   ruleLeads
}

func (v *devices) Leads() (Leads, error) {
	all := deviceLeads{rules: ruleLeads{}}
	if !v.UsesVRFs() {
		return all, nil
	}
	leads, err := v.rules.Leads()
	if err != nil {
		return nil, err
	}
	all.rules = leads.(ruleLeads)
	all.devices, err = v.all()
	return all, err
}

func (all deviceLeads) Of(r *netlink.Route, vrf uint32) (to uint32, leads, intact bool) {
	if r.Type == unix.RTN_THROW {
		to, leads, _ = all.rules.Of(r, vrf)
		return to, leads, to == 0
	}
	d, ok := all.devices[r.LinkIndex]
	if !ok || r.Type != unix.RTN_UNICAST || len(r.MultiPath) > 0 {
		return 0, false, false
	}
	delete(all.rules, InterRoute{vrf, own.Destination(r)})
	return d.vrf, true, true
}

func (all deviceLeads) Rest() map[InterRoute]uint32 { return all.rules }

// convertLeads redirects throw routes of an earlier version to the VRF device. Without its rules,
// they would lead to VRF 0.
func (v *devices) convertLeads(to uint32) error {
	d, err := v.find(to)
	if err != nil {
		return err
	}
	for _, family := range ipFamilies {
		s := v.rules.lastState(family)
		for route, via := range s.inter {
			if via != to {
				continue
			}
			if err := v.convertLead(route, d.index); err != nil {
				return err
			}
			if err := v.rules.LeadBack(route); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *devices) convertLead(route InterRoute, device int) error {
	table := int(own.TableOf(route.Vrf))
	found, err := v.Net.Routes(rtnl.Family(route.Dst.Addr()), &netlink.Route{Protocol: own.ProtoOurs, Table: table}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("reading routes into other VRFs: %w", err)
	}
	for _, r := range found {
		if r.Type != unix.RTN_THROW || own.Destination(&r) != route.Dst {
			continue
		}
		lead := &netlink.Route{Family: r.Family, Table: table, Protocol: own.ProtoOurs, Dst: own.IPNet(route.Dst), Priority: r.Priority,
			Type: unix.RTN_UNICAST, Scope: netlink.SCOPE_LINK, LinkIndex: device}
		if err := v.Net.RouteReplace(lead); err != nil {
			return fmt.Errorf("replacing the route to %s in VRF %d: %w", route.Dst, route.Vrf, err)
		}
	}
	return nil
}
