package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/emptypb"
)

// RouteDescriptor is the name of the descriptor of routes.
const RouteDescriptor = "linux-route"

// defaultMetric6 is the kernel's default metric of IPv6 routes.
const defaultMetric6 = 1024

func (p *Plugin) routeDescriptor() kvscheduler.Descriptor[*linux_l3.Route, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*linux_l3.Route, kvscheduler.NoMetadata]{
		Name:       RouteDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.LinuxRoute.KeyPrefix()},
		NB:         true,
		Equivalent: func(_ string, old, new *linux_l3.Route) bool { return equivalentRoutes(old, new) },
		Validate:   func(_ string, v *linux_l3.Route) error { return validateRoute(v) },
		Create: func(ctx context.Context, key string, v *linux_l3.Route) (none kvscheduler.NoMetadata, err error) {
			if v, err = p.resolveRoute(v); err != nil {
				return none, err
			}
			return p.createRoute(ctx, key, v)
		},
		Delete: func(ctx context.Context, key string, v *linux_l3.Route, none kvscheduler.NoMetadata) error {
			v, err := p.resolveRoute(v)
			if err != nil {
				return ifAllocated(err)
			}
			return p.deleteRoute(ctx, key, v, none)
		},
		Update: func(ctx context.Context, key string, old, v *linux_l3.Route, none kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
			old, oldErr := p.resolveRoute(old)
			v, err := p.resolveRoute(v)
			if err := errors.Join(oldErr, err); err != nil {
				return none, err
			}
			return p.updateRoute(ctx, key, old, v, none)
		},
		UpdateWithRecreate: func(_ string, old, new *linux_l3.Route, _ kvscheduler.NoMetadata) bool {
			return metricOf(old) != metricOf(new) || old.GetOutgoingInterface() != new.GetOutgoingInterface()
		},
		Retrieve:      p.retrieveRoutes,
		RetrieveKeys:  p.retrieveRouteKeys,
		RetrieveAfter: []string{netalloc.Descriptor, InterfaceDescriptor},
		Retriable:     retriable,
		DerivedValues: deriveFromRoute,
		Dependencies:  func(_ string, v *linux_l3.Route) []kvscheduler.Dependency { return routeDependencies(v) },
	}
}

// destination returns the destination network without host bits.
func destination(v *linux_l3.Route) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(v.GetDstNetwork())
	return prefix.Masked(), err
}

func gateway(v *linux_l3.Route) netip.Addr {
	addr, err := netip.ParseAddr(v.GetGwAddr())
	if err != nil || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// scopeOf returns the scope of a route. The default is that of `ip route`.
func scopeOf(v *linux_l3.Route) linux_l3.Route_Scope {
	switch {
	case v.GetScope() != linux_l3.Route_UNDEFINED:
		return v.GetScope()
	case gateway(v).IsValid() || netalloc.IsRef(v.GetGwAddr()):
		return linux_l3.Route_GLOBAL
	default:
		return linux_l3.Route_LINK
	}
}

func metricOf(v *linux_l3.Route) uint32 {
	if dst, err := destination(v); err == nil && dst.Addr().Is6() && v.GetMetric() == 0 {
		return defaultMetric6
	}
	return v.GetMetric()
}

func equivalentRoutes(old, new *linux_l3.Route) bool {
	if netalloc.HasRef(old.GetDstNetwork(), new.GetDstNetwork(), old.GetGwAddr(), new.GetGwAddr()) &&
		(old.GetDstNetwork() != new.GetDstNetwork() || old.GetGwAddr() != new.GetGwAddr()) {
		return false
	}
	oldDst, _ := destination(old)
	newDst, _ := destination(new)
	return old.GetOutgoingInterface() == new.GetOutgoingInterface() && oldDst == newDst &&
		gateway(old) == gateway(new) && metricOf(old) == metricOf(new) && scopeOf(old) == scopeOf(new)
}

func validateRoute(v *linux_l3.Route) error {
	invalid := func(field, format string, args ...any) error {
		return kvscheduler.NewInvalidValueError(fmt.Errorf(format, args...), field)
	}
	if v.GetOutgoingInterface() == "" {
		return invalid("outgoing_interface", "route has no outgoing interface")
	}
	if netalloc.HasRef(v.GetDstNetwork(), v.GetGwAddr()) {
		return validateRouteRefs(v)
	}
	dst, err := netip.ParsePrefix(v.GetDstNetwork())
	if err != nil {
		return invalid("dst_network", "%q is no network with prefix length, such as 10.1.0.0/16", v.GetDstNetwork())
	}
	if v.GetGwAddr() == "" {
		return nil
	}
	gw, err := netip.ParseAddr(v.GetGwAddr())
	switch {
	case err != nil:
		return invalid("gw_addr", "%q is no IP address", v.GetGwAddr())
	case gw.IsUnspecified(): // means no gateway, in either IP version
	case gw.Is4() != dst.Addr().Is4():
		return invalid("gw_addr", "gateway %s is not of the IP version of the destination %s", gw, dst)
	case gateway(v).IsValid() && v.GetScope() == linux_l3.Route_LINK:
		return kvscheduler.NewInvalidValueError(fmt.Errorf("route of scope LINK has gateway %s: remove it, or make the scope GLOBAL", gw), "scope", "gw_addr")
	}
	return nil
}

// deriveFromRoute returns a property on which routes to gateways in the network depend.
func deriveFromRoute(_ string, v *linux_l3.Route) []kvscheduler.KeyValue {
	text := v.GetDstNetwork()
	if dst, err := destination(v); err == nil {
		text = dst.String()
	} else if !netalloc.IsRef(text) {
		return nil
	}
	if scopeOf(v) != linux_l3.Route_LINK {
		return nil
	}
	return []kvscheduler.KeyValue{{
		Key:   models.LinuxLinkLocalRouteKey(v.GetOutgoingInterface(), text),
		Value: &emptypb.Empty{},
	}}
}

func routeDependencies(v *linux_l3.Route) []kvscheduler.Dependency {
	iface := v.GetOutgoingInterface()
	deps := []kvscheduler.Dependency{
		interfaceIsUp("outgoing-interface-is-up", iface),
		interfaceHasAddress("outgoing-interface-has-ip-address", iface),
	}
	deps = append(deps, allocationsOfRoute(v)...)
	if gw := gateway(v); gw.IsValid() && !gw.IsLinkLocalUnicast() {
		deps = append(deps, kvscheduler.Dependency{Label: "gw-reachable", AnyOf: kvscheduler.AnyOf{
			KeyPrefixes: []string{models.LinuxInterfaceAddressPrefix(iface), models.LinuxLinkLocalRoutePrefix(iface)},
			KeySelector: func(key string) bool { return networkOf(key, iface).Contains(gw) },
		}})
	}
	return deps
}

// networkOf returns the network in the key of an address or link-local route of the interface.
func networkOf(key, iface string) netip.Prefix {
	text, ok := strings.CutPrefix(key, models.LinuxLinkLocalRoutePrefix(iface))
	if !ok {
		_, _, text, _ = parseAddressKey(key)
	}
	prefix, _ := netip.ParsePrefix(text)
	return prefix
}

var kernelScopes = map[linux_l3.Route_Scope]netlink.Scope{
	linux_l3.Route_GLOBAL: netlink.SCOPE_UNIVERSE,
	linux_l3.Route_SITE:   netlink.SCOPE_SITE,
	linux_l3.Route_LINK:   netlink.SCOPE_LINK,
	linux_l3.Route_HOST:   netlink.SCOPE_HOST,
}

func kernelRoute(index int, v *linux_l3.Route) (*netlink.Route, error) {
	dst, err := destination(v)
	if err != nil {
		return nil, err
	}
	return &netlink.Route{
		LinkIndex: index,
		Scope:     kernelScopes[scopeOf(v)],
		Dst:       &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())},
		Gw:        gateway(v).AsSlice(),
		Priority:  int(v.GetMetric()),
		Protocol:  ownProtocol,
		Table:     unix.RT_TABLE_MAIN,
	}, nil
}

func (p *Plugin) createRoute(_ context.Context, key string, v *linux_l3.Route) (none kvscheduler.NoMetadata, err error) {
	return none, p.setRoute(key, nil, v, "add", func(ns *namespaces.Namespace, r *netlink.Route) error {
		err := ns.RouteAdd(r)
		if errors.Is(err, unix.EEXIST) {
			return replaceOwnRoute(ns, r, v)
		}
		return err
	})
}

func (p *Plugin) updateRoute(_ context.Context, key string, old, v *linux_l3.Route, none kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
	return none, p.setRoute(key, old, v, "change", func(ns *namespaces.Namespace, r *netlink.Route) error { return replaceOwnRoute(ns, r, v) })
}

// setRoute replaces the route old, which may be nil, with v.
func (p *Plugin) setRoute(key string, old, v *linux_l3.Route, doing string, set func(*namespaces.Namespace, *netlink.Route) error) error {
	p.inventory.putRoute(key, v)
	err := p.onDeviceOf(v.GetOutgoingInterface(), func(at *location) error {
		r, err := kernelRoute(at.index, v)
		if err == nil {
			err = set(at.ns, r)
		}
		if err != nil {
			return fmt.Errorf("in %s: %w", at.ns.Name, err)
		}
		return nil
	})
	if err != nil {
		p.inventory.removeRoute(key, v)
		if old != nil {
			p.inventory.putRoute(key, old)
		}
		return fmt.Errorf("%s route to %s via interface %s: %w", doing, v.GetDstNetwork(), v.GetOutgoingInterface(), err)
	}
	return nil
}

// replaceOwnRoute replaces our route of the same destination, metric and device. If none exists, it
// adds the route.
func replaceOwnRoute(ns *namespaces.Namespace, r *netlink.Route, v *linux_l3.Route) error {
	family := netlink.FAMILY_V4
	if r.Dst.IP.To4() == nil {
		family = netlink.FAMILY_V6
	}
	routes, err := ns.Routes(family, &netlink.Route{Dst: r.Dst}, netlink.RT_FILTER_DST)
	if err != nil {
		return err
	}
	for _, other := range routes {
		if other.Priority != int(metricOf(v)) || other.Protocol == ownProtocol && other.LinkIndex == r.LinkIndex {
			continue
		}
		return fmt.Errorf("%w: %s: delete that route, or give this one another metric", ErrForeignRoute, routeText(ns, other))
	}
	return ns.RouteReplace(r)
}

// routeText formats the attributes that identify a route, like `ip route`.
func routeText(ns *namespaces.Namespace, r netlink.Route) string {
	text := "default"
	if r.Dst != nil {
		if ones, _ := r.Dst.Mask.Size(); ones > 0 {
			text = r.Dst.String()
		}
	}
	if r.Gw != nil {
		text += " via " + r.Gw.String()
	}
	if link, err := ns.LinkByIndex(r.LinkIndex); err == nil {
		text += " dev " + link.Attrs().Name
	}
	if r.Protocol > unix.RTPROT_BOOT {
		text += fmt.Sprintf(" proto %d", r.Protocol)
	}
	if r.Priority > 0 {
		text += fmt.Sprintf(" metric %d", r.Priority)
	}
	return text
}

func (p *Plugin) deleteRoute(_ context.Context, key string, v *linux_l3.Route, _ kvscheduler.NoMetadata) error {
	p.inventory.removeRoute(key, v)
	err := p.onDeviceOf(v.GetOutgoingInterface(), func(at *location) error {
		r, err := kernelRoute(at.index, v)
		if err != nil {
			return err
		}
		return at.ns.RouteDel(r)
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("delete route to %s via interface %s: %w", v.GetDstNetwork(), v.GetOutgoingInterface(), err)
	}
	return nil
}
