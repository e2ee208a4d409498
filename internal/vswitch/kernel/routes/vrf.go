package routes

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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

// checkLead returns an error if another route into another VRF has the destination.
func (v routes) checkLead(route *vpp_l3.Route) error {
	for _, known := range v.Reg.RoutesTo(netip.MustParsePrefix(route.GetDstNetwork()).Masked()) {
		if own.LeadsAway(known) && known.GetVrfId() == route.GetVrfId() && known.GetPreference() != route.GetPreference() {
			return fmt.Errorf("a route with preference %d has the same destination: only one route of type INTER_VRF may have it", known.GetPreference())
		}
	}
	return nil
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

// describeLead returns the value of a route into another VRF.
func describeLead(r *netlink.Route, vrf, via uint32, wanted map[routeID]*vpp_l3.Route) *vpp_l3.Route {
	dst := own.Destination(r)
	route := &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: vrf, ViaVrfId: via, DstNetwork: dst.String(), Preference: preference(r)}
	if want := wanted[routeID{vrf: vrf, dst: dst}]; want != nil && own.LeadsAway(want) {
		complete(route, want, 1)
	}
	return route
}
