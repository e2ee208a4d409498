package kernel

import (
	"fmt"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// leadsAway tells routes that look elsewhere from those that say themselves where to
// go: of type INTER_VRF, without an interface or a next hop.
func leadsAway(route *vpp_l3.Route) bool {
	if route.GetType() != vpp_l3.Route_INTER_VRF || route.GetOutgoingInterface() != "" {
		return false
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	return err != nil || gw.IsUnspecified()
}

func interRouteOf(route *vpp_l3.Route) interRoute {
	return interRoute{route.GetVrfId(), netip.MustParsePrefix(route.GetDstNetwork()).Masked()}
}

// routeTableExists tells what a route would be useless without.
func (v routes) routeTableExists(route *vpp_l3.Route) error {
	vrfs := []uint32{route.GetVrfId()}
	if route.GetType() == vpp_l3.Route_INTER_VRF {
		vrfs = append(vrfs, route.GetViaVrfId())
	}
	for _, vrf := range vrfs {
		if vrf == 0 {
			continue
		}
		v.vrf.mu.Lock()
		there := v.vrf.last[familyOfRoute(route)].tables[vrf]
		v.vrf.mu.Unlock()
		if !there {
			return fmt.Errorf("VRF %d does not exist", vrf)
		}
	}
	return nil
}

func familyOfRoute(route *vpp_l3.Route) int {
	return family(netip.MustParsePrefix(route.GetDstNetwork()).Addr())
}

// leadAway makes the rules to the other VRF; the throw route that comes next lets
// packets get there.
func (v routes) leadAway(route *vpp_l3.Route) error {
	return v.editVRFs(familyOfRoute(route), func(s *vrfState) error {
		for _, known := range v.reg.routesTo(interRouteOf(route).dst) {
			if leadsAway(known) && known.GetVrfId() == route.GetVrfId() && known.GetPreference() != route.GetPreference() {
				return fmt.Errorf("there is one with preference %d already: two of type INTER_VRF cannot have the same destination", known.GetPreference())
			}
		}
		s.inter[interRouteOf(route)] = route.GetViaVrfId()
		return nil
	})
}

// leadBack removes the rules, after the throw route.
func (v routes) leadBack(route *vpp_l3.Route) error {
	if !v.usesVRFs() {
		return nil
	}
	return v.editVRFs(familyOfRoute(route), func(s *vrfState) error {
		delete(s.inter, interRouteOf(route))
		return nil
	})
}

// inItsVRF finds the device of a next hop that is given without: left to itself, the
// kernel would also look in the main table.
func (v routes) inItsVRF(route *vpp_l3.Route, index int) (int, error) {
	vrf := route.GetVrfId()
	if route.GetType() == vpp_l3.Route_INTER_VRF {
		vrf = route.GetViaVrfId()
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	if err != nil || index != 0 || vrf == 0 && route.GetVrfId() == 0 || route.GetType() == vpp_l3.Route_DROP || leadsAway(route) {
		return index, nil
	}
	options := &netlink.RouteGetOptions{}
	if vrf != 0 {
		options.Mark = vrfMark | vrf
	}
	hops, err := v.nl.RouteGetWithOptions(gw.AsSlice(), options)
	switch {
	case err != nil:
		return 0, fmt.Errorf("next hop %s in VRF %d: %w", gw, vrf, err)
	case len(hops) == 0 || hops[0].Gw != nil || hops[0].Table != int(tableOf(vrf)) || hops[0].Type != unix.RTN_UNICAST:
		return 0, fmt.Errorf("next hop %s is not in a network of an interface in VRF %d: %w", gw, vrf, unix.ENETUNREACH)
	}
	return hops[0].LinkIndex, nil
}

// interRoutes are what rules say about routes into other VRFs, by IP version.
type interRoutes map[int]map[interRoute]uint32

func (v *VSwitch) interRoutes() (interRoutes, error) {
	all := interRoutes{}
	if !v.usesVRFs() {
		return all, nil
	}
	for _, family := range ipFamilies {
		s, _, err := v.readVRFs(family)
		if err != nil {
			return nil, err
		}
		all[family] = s.inter
	}
	return all, nil
}

// describeThrow returns the value of a throw route, and notes that its rules have one;
// nil if they are not as wanted, so that it is created again.
func (all interRoutes) describeThrow(r *netlink.Route, vrf uint32, wanted map[routeID]*vpp_l3.Route) *vpp_l3.Route {
	id := interRoute{vrf, destination(r)}
	via, ok := all[r.Family][id]
	delete(all[r.Family], id)
	route := &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: vrf, ViaVrfId: via, DstNetwork: id.dst.String(), Preference: preference(r)}
	want := wanted[routeID{vrf: vrf, dst: id.dst}]
	if want == nil || !leadsAway(want) {
		return route
	}
	if !ok {
		return nil
	}
	complete(route, want, 1)
	return route
}

// rest returns rules without a throw route, for them to be removed.
func (all interRoutes) rest(wanted map[routeID]*vpp_l3.Route) (list []*vpp_l3.Route) {
	for _, routes := range all {
		for id, via := range routes {
			if wanted[routeID{vrf: id.vrf, dst: id.dst}] == nil {
				list = append(list, &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: id.vrf, ViaVrfId: via, DstNetwork: id.dst.String()})
			}
		}
	}
	return list
}
