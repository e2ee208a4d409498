package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// The descriptors resolve references to allocated addresses first: the kernel and the inventory
// hold addresses, under the keys of the values with the references.

// ifAllocated ignores a missing allocation: nothing was created, so nothing is left to delete.
func ifAllocated(err error) error {
	if errors.Is(err, netalloc.ErrNotAllocated) {
		return nil
	}
	return err
}

// resolveRoute returns the route with references replaced by addresses.
func (p *Plugin) resolveRoute(v *linux_l3.Route) (_ *linux_l3.Route, err error) {
	if !netalloc.HasRef(v.GetDstNetwork(), v.GetGwAddr()) {
		return v, nil
	}
	v = proto.CloneOf(v)
	if v.DstNetwork, err = p.alloc.Network(v.GetDstNetwork(), ""); err != nil {
		return nil, err
	}
	if v.GwAddr, err = p.alloc.Addr(v.GetGwAddr(), v.GetOutgoingInterface()); err != nil {
		return nil, err
	}
	return v, validateRoute(v)
}

// restoreRoute returns a found route with the references of the wanted one where they resolve to
// the found addresses.
func restoreRoute(found, resolved, wanted *linux_l3.Route) *linux_l3.Route {
	if resolved == wanted { // no references
		return found
	}
	v := proto.CloneOf(found)
	netalloc.Put(&v.DstNetwork, resolved.GetDstNetwork(), wanted.GetDstNetwork())
	netalloc.Put(&v.GwAddr, resolved.GetGwAddr(), wanted.GetGwAddr())
	return v
}

// validateRouteRefs checks the references as far as possible without allocations.
func validateRouteRefs(v *linux_l3.Route) error {
	invalid := func(field string, err error) error { return kvscheduler.NewInvalidValueError(err, field) }
	if dst := v.GetDstNetwork(); netalloc.IsRef(dst) {
		if _, err := netalloc.ParseRef(dst, ""); err != nil {
			return invalid("dst_network", err)
		}
	} else if _, err := netip.ParsePrefix(dst); err != nil {
		return invalid("dst_network", fmt.Errorf("%q is no network with prefix length, such as 10.1.0.0/16", dst))
	}
	gw := v.GetGwAddr()
	if !netalloc.IsRef(gw) {
		if _, err := netip.ParseAddr(gw); gw != "" && err != nil {
			return invalid("gw_addr", fmt.Errorf("%q is no IP address", gw))
		}
		return nil
	}
	if err := netalloc.ValidateGateway(gw, v.GetOutgoingInterface()); err != nil {
		return invalid("gw_addr", err)
	}
	if v.GetScope() == linux_l3.Route_LINK {
		return invalid("scope", fmt.Errorf("route of scope LINK has gateway %s: remove it, or make the scope GLOBAL", gw))
	}
	return nil
}

// allocationsOfRoute returns the dependencies of a route with references. A gateway must be a
// neighbour in the allocated network or reachable by a route.
func allocationsOfRoute(v *linux_l3.Route) []kvscheduler.Dependency {
	iface := v.GetOutgoingInterface()
	deps := netalloc.Dependency("dst_network", v.GetDstNetwork(), "")
	gw, err := netalloc.ParseRef(v.GetGwAddr(), iface)
	if err != nil {
		return deps
	}
	deps = append(deps, netalloc.Dependency("gw_addr", v.GetGwAddr(), iface)...)
	neighbour, route := netalloc.NeighbourGatewayKey(gw.Network, gw.Interface), models.LinuxLinkLocalRouteKey(iface, gw.String())
	var attached []string
	for _, form := range gw.Forms() {
		attached = append(attached, models.LinuxInterfaceAddressKey(iface, models.AddrAllocRef, form))
	}
	return append(deps,
		kvscheduler.Dependency{Label: "gw-reachable", AnyOf: kvscheduler.AnyOf{
			KeyPrefixes: []string{neighbour, route},
			KeySelector: func(key string) bool { return key == neighbour || key == route },
		}},
		kvscheduler.Dependency{Label: "allocated-addr-attached", AnyOf: kvscheduler.AnyOf{
			KeyPrefixes: attached,
			KeySelector: func(key string) bool { return slices.Contains(attached, key) },
		}})
}

// resolvedARP calls do with the entry after resolving its address.
func (p *Plugin) resolvedARP(v *linux_l3.ARPEntry, do func(*linux_l3.ARPEntry) error) error {
	addr, err := p.alloc.Addr(v.GetIpAddress(), "")
	if err != nil {
		return err
	}
	if addr != v.GetIpAddress() {
		v = proto.CloneOf(v)
		v.IpAddress = addr
	}
	return do(v)
}
