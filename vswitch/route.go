package vswitch

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// routeDescriptor handles config/vpp/v2/route/….
func routeDescriptor(port Routes) kvscheduler.Descriptor[*vpp_l3.Route, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.Route, noMeta]{
		Name:          RouteDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.VPPRoute.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, r *vpp_l3.Route) error { return validateRoute(r) },
		Equivalent:    func(_ string, old, new *vpp_l3.Route) bool { return equivalentRoutes(old, new) },
		Create:        create(port.Create),
		Delete:        remove(port.Delete),
		Retrieve:      retrieve(port.List),
		RetrieveKeys:  retrieve(port.Find),
		RetrieveAfter: []string{InterfaceDescriptor, VRFTableDescriptor},
		Dependencies:  func(_ string, r *vpp_l3.Route) []kvscheduler.Dependency { return dependenciesOfRoute(r) },
	}
}

func validateRoute(r *vpp_l3.Route) error {
	if err := validPrefix("dst_network", r.GetDstNetwork()); err != nil {
		return err
	}
	dst := netip.MustParsePrefix(r.GetDstNetwork())
	if dst != dst.Masked() {
		return invalid("dst_network", "%s has bits behind the prefix: write %s", dst, dst.Masked())
	}
	if gw := r.GetNextHopAddr(); gw != "" {
		if err := validAddr("next_hop_addr", gw); err != nil {
			return err
		}
		if isIPv6(gw) != dst.Addr().Is6() {
			return invalid("next_hop_addr", "destination %s and next hop %s are of different IP versions", dst, gw)
		}
	}
	if r.GetType() == vpp_l3.Route_INTRA_VRF && r.GetNextHopAddr() == "" && r.GetOutgoingInterface() == "" {
		return invalid("next_hop_addr", "a route needs a next hop, an outgoing interface, or type DROP")
	}
	return nil
}

func equivalentRoutes(old, new *vpp_l3.Route) bool {
	return old.GetType() == new.GetType() &&
		old.GetVrfId() == new.GetVrfId() &&
		old.GetViaVrfId() == new.GetViaVrfId() &&
		samePrefixText(old.GetDstNetwork(), new.GetDstNetwork()) &&
		sameAddrText(old.GetNextHopAddr(), new.GetNextHopAddr()) &&
		old.GetOutgoingInterface() == new.GetOutgoingInterface() &&
		max(old.GetWeight(), 1) == max(new.GetWeight(), 1) &&
		old.GetPreference() == new.GetPreference()
}

func dependenciesOfRoute(r *vpp_l3.Route) (deps []kvscheduler.Dependency) {
	dst, err := netip.ParsePrefix(r.GetDstNetwork())
	ipv6 := err == nil && dst.Addr().Is6()
	if name := r.GetOutgoingInterface(); name != "" {
		deps = append(deps, kvscheduler.Dependency{Label: "interface-exists", Key: models.VPPInterfaceKey(name)})
	}
	if r.GetVrfId() != 0 {
		deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-exists", Key: models.VRFTableKey(r.GetVrfId(), ipv6)})
	}
	if r.GetType() == vpp_l3.Route_INTER_VRF && r.GetViaVrfId() != 0 {
		deps = append(deps, kvscheduler.Dependency{Label: "via-vrf-table-exists", Key: models.VRFTableKey(r.GetViaVrfId(), ipv6)})
	}
	return deps
}
