package routes

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/vswitch/kernel/own"
	vrfs "github.com/contiv/contiv/vswitch/kernel/vrf"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func interRouteOf(route *vpp_l3.Route) vrfs.InterRoute {
	return vrfs.InterRoute{Vrf: route.GetVrfId(), Dst: netip.MustParsePrefix(route.GetDstNetwork()).Masked()}
}

func (v routes) routeTableExists(route *vpp_l3.Route) error {
	vrfs := []uint32{route.GetVrfId()}
	if route.GetType() == vpp_l3.Route_INTER_VRF {
		vrfs = append(vrfs, route.GetViaVrfId())
	}
	for _, vrf := range vrfs {
		if vrf == 0 {
			continue
		}
		if !v.vrf.HasTable(own.FamilyOfRoute(route), vrf) {
			return fmt.Errorf("VRF %d does not exist", vrf)
		}
	}
	return nil
}

func (v routes) leadAway(route *vpp_l3.Route) error {
	for _, known := range v.Reg.RoutesTo(interRouteOf(route).Dst) {
		if own.LeadsAway(known) && known.GetVrfId() == route.GetVrfId() && known.GetPreference() != route.GetPreference() {
			return fmt.Errorf("a route with preference %d has the same destination: only one route of type INTER_VRF may have it", known.GetPreference())
		}
	}
	return v.vrf.LeadAway(interRouteOf(route), route.GetViaVrfId())
}

// inItsVRF finds the device of a next hop without one. The kernel would also search the main table.
func (v routes) inItsVRF(route *vpp_l3.Route, index int) (int, error) {
	vrf := route.GetVrfId()
	if route.GetType() == vpp_l3.Route_INTER_VRF {
		vrf = route.GetViaVrfId()
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	if err != nil || index != 0 || vrf == 0 && route.GetVrfId() == 0 || route.GetType() == vpp_l3.Route_DROP || own.LeadsAway(route) {
		return index, nil
	}
	options := &netlink.RouteGetOptions{}
	if vrf != 0 {
		options = v.vrf.LookupIn(vrf)
	}
	hops, err := v.Net.RouteGetWithOptions(gw.AsSlice(), options)
	switch {
	case err != nil:
		return 0, fmt.Errorf("next hop %s in VRF %d: %w", gw, vrf, err)
	case len(hops) == 0 || hops[0].Gw != nil || hops[0].Table != int(own.TableOf(vrf)) || hops[0].Type != unix.RTN_UNICAST:
		return 0, fmt.Errorf("next hop %s is not in a network of an interface in VRF %d: %w", gw, vrf, unix.ENETUNREACH)
	}
	return hops[0].LinkIndex, nil
}

// describeLead returns the value of a route into another VRF; nil if packets do not get there as
// wanted, so that it is created again.
func describeLead(r *netlink.Route, vrf, via uint32, intact bool, wanted map[routeID]*vpp_l3.Route) *vpp_l3.Route {
	dst := own.Destination(r)
	route := &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: vrf, ViaVrfId: via, DstNetwork: dst.String(), Preference: preference(r)}
	want := wanted[routeID{vrf: vrf, dst: dst}]
	if want == nil || !own.LeadsAway(want) {
		return route
	}
	if !intact && (via == 0 || via == want.GetViaVrfId()) {
		return nil
	}
	complete(route, want, 1)
	return route
}

// strayLeads returns the remains of routes into other VRFs, for removal.
func strayLeads(rest map[vrfs.InterRoute]uint32, wanted map[routeID]*vpp_l3.Route) (list []*vpp_l3.Route) {
	for id, via := range rest {
		if wanted[routeID{vrf: id.Vrf, dst: id.Dst}] == nil {
			list = append(list, &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: id.Vrf, ViaVrfId: via, DstNetwork: id.Dst.String()})
		}
	}
	return list
}
