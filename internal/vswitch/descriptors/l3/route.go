package l3

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// routeDescriptor handles config/vpp/v2/route/….
func routeDescriptor(port vswitch.Routes, alloc *netalloc.Resolver) kvscheduler.Descriptor[*vpp_l3.Route, descriptor.NoMeta] {
	routes := allocatedRoutes(alloc)
	return descriptor.InBulk(kvscheduler.Descriptor[*vpp_l3.Route, descriptor.NoMeta]{
		Name:          vswitch.RouteDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.VPPRoute.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, r *vpp_l3.Route) error { return validateRoute(r) },
		Equivalent:    func(_ string, old, new *vpp_l3.Route) bool { return equivalentRoutes(old, new) },
		Create:        routes.Create(port.Create),
		Delete:        routes.Delete(port.Delete),
		Retrieve:      routes.Retrieve(port.List),
		RetrieveKeys:  routes.Retrieve(port.Find),
		RetrieveAfter: []string{netalloc.Descriptor, vswitch.InterfaceDescriptor, vswitch.VRFTableDescriptor},
		Dependencies:  func(_ string, r *vpp_l3.Route) []kvscheduler.Dependency { return dependenciesOfRoute(r) },
	}, port, routes)
}

func validateRoute(r *vpp_l3.Route) error {
	if netalloc.HasRef(r.GetDstNetwork(), r.GetNextHopAddr()) {
		return validateRouteRefs(r)
	}
	if err := descriptor.ValidPrefix("dst_network", r.GetDstNetwork()); err != nil {
		return err
	}
	dst := netip.MustParsePrefix(r.GetDstNetwork())
	if dst != dst.Masked() {
		return descriptor.Invalid("dst_network", "%s has bits behind the prefix: write %s", dst, dst.Masked())
	}
	noNextHop := r.GetNextHopAddr() == "" || isUnspecified(r.GetNextHopAddr())
	if gw := r.GetNextHopAddr(); !noNextHop {
		if err := descriptor.ValidAddr("next_hop_addr", gw); err != nil {
			return err
		}
		if descriptor.IsIPv6(gw) != dst.Addr().Is6() {
			return descriptor.Invalid("next_hop_addr", "destination %s and next hop %s are of different IP versions", dst, gw)
		}
	}
	if r.GetType() == vpp_l3.Route_INTRA_VRF && noNextHop && r.GetOutgoingInterface() == "" {
		return descriptor.Invalid("next_hop_addr", "a route needs a next hop, an outgoing interface, or type DROP")
	}
	return nil
}

// validateRouteRefs checks the references as far as possible without allocations.
func validateRouteRefs(r *vpp_l3.Route) error {
	if dst := r.GetDstNetwork(); netalloc.IsRef(dst) {
		if _, err := netalloc.ParseRef(dst, ""); err != nil {
			return descriptor.Invalid("dst_network", "%w", err)
		}
	} else if err := descriptor.ValidPrefix("dst_network", dst); err != nil {
		return err
	}
	if gw := r.GetNextHopAddr(); netalloc.IsRef(gw) {
		if err := netalloc.ValidateGateway(gw, r.GetOutgoingInterface()); err != nil {
			return descriptor.Invalid("next_hop_addr", "%w", err)
		}
	} else if gw != "" {
		return descriptor.ValidAddr("next_hop_addr", gw)
	}
	return nil
}

func equivalentRoutes(old, new *vpp_l3.Route) bool {
	return old.GetType() == new.GetType() &&
		old.GetVrfId() == new.GetVrfId() &&
		old.GetViaVrfId() == new.GetViaVrfId() &&
		descriptor.SamePrefixText(old.GetDstNetwork(), new.GetDstNetwork()) &&
		descriptor.SameAddrText(old.GetNextHopAddr(), new.GetNextHopAddr()) &&
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
