package vswitch

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netalloc"
)

// routeDescriptor handles config/vpp/v2/route/….
func routeDescriptor(port Routes, alloc *netalloc.Resolver) kvscheduler.Descriptor[*vpp_l3.Route, noMeta] {
	routes := allocatedRoutes(alloc)
	return inBulk(kvscheduler.Descriptor[*vpp_l3.Route, noMeta]{
		Name:          RouteDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.VPPRoute.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, r *vpp_l3.Route) error { return validateRoute(r) },
		Equivalent:    func(_ string, old, new *vpp_l3.Route) bool { return equivalentRoutes(old, new) },
		Create:        routes.create(port.Create),
		Delete:        routes.remove(port.Delete),
		Retrieve:      routes.retrieve(port.List),
		RetrieveKeys:  routes.retrieve(port.Find),
		RetrieveAfter: []string{netalloc.Descriptor, InterfaceDescriptor, VRFTableDescriptor},
		Dependencies:  func(_ string, r *vpp_l3.Route) []kvscheduler.Dependency { return dependenciesOfRoute(r) },
	}, port, routes)
}

func validateRoute(r *vpp_l3.Route) error {
	if netalloc.HasRef(r.GetDstNetwork(), r.GetNextHopAddr()) {
		return validateRouteRefs(r)
	}
	if err := validPrefix("dst_network", r.GetDstNetwork()); err != nil {
		return err
	}
	dst := netip.MustParsePrefix(r.GetDstNetwork())
	if dst != dst.Masked() {
		return invalid("dst_network", "%s has bits behind the prefix: write %s", dst, dst.Masked())
	}
	noNextHop := r.GetNextHopAddr() == "" || isUnspecified(r.GetNextHopAddr())
	if gw := r.GetNextHopAddr(); !noNextHop {
		if err := validAddr("next_hop_addr", gw); err != nil {
			return err
		}
		if isIPv6(gw) != dst.Addr().Is6() {
			return invalid("next_hop_addr", "destination %s and next hop %s are of different IP versions", dst, gw)
		}
	}
	if r.GetType() == vpp_l3.Route_INTRA_VRF && noNextHop && r.GetOutgoingInterface() == "" {
		return invalid("next_hop_addr", "a route needs a next hop, an outgoing interface, or type DROP")
	}
	return nil
}

// validateRouteRefs checks what can be known without the allocations; the rest
// when they are there.
func validateRouteRefs(r *vpp_l3.Route) error {
	if dst := r.GetDstNetwork(); netalloc.IsRef(dst) {
		if _, err := netalloc.ParseRef(dst, ""); err != nil {
			return invalid("dst_network", "%w", err)
		}
	} else if err := validPrefix("dst_network", dst); err != nil {
		return err
	}
	if gw := r.GetNextHopAddr(); netalloc.IsRef(gw) {
		if err := netalloc.ValidateGateway(gw, r.GetOutgoingInterface()); err != nil {
			return invalid("next_hop_addr", "%w", err)
		}
	} else if gw != "" {
		return validAddr("next_hop_addr", gw)
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
	dst, gw := r.GetDstNetwork(), r.GetNextHopAddr()
	deps = append(deps, netalloc.Dependency("dst_network", dst, "")...)
	deps = append(deps, netalloc.Dependency("gw_addr", gw, r.GetOutgoingInterface())...)
	if name := r.GetOutgoingInterface(); name != "" {
		deps = append(deps, kvscheduler.Dependency{Label: "interface-exists", Key: models.VPPInterfaceKey(name)})
	}
	if r.GetVrfId() != 0 {
		deps = append(deps, inTable("vrf-table-exists", r.GetVrfId(), dst, gw))
	}
	if r.GetType() == vpp_l3.Route_INTER_VRF && r.GetViaVrfId() != 0 {
		deps = append(deps, inTable("via-vrf-table-exists", r.GetViaVrfId(), dst, gw))
	}
	return deps
}
