package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type routes struct{ *VSwitch }

// defaultMetric6 is what the kernel makes of metric 0 for IPv6.
const defaultMetric6 = 1024

// maxWeight is what rtnh_hops leaves.
const maxWeight = 256

func (v routes) Create(_ context.Context, route *vpp_l3.Route) error {
	if err := routeSupported(route); err != nil {
		return err
	}
	if err := v.routeTableExists(route); err != nil {
		return fmt.Errorf("adding route to %s: %w", describeRoute(route), err)
	}
	if leadsAway(route) {
		if err := v.leadAway(route); err != nil {
			return fmt.Errorf("adding route to %s: %w", describeRoute(route), err)
		}
	}
	err := v.withRouteDevice(route, func(index int) error {
		err := v.add(route, index)
		if errors.Is(err, unix.ENETDOWN) && v.bringUp(route.GetOutgoingInterface()) {
			err = v.add(route, index)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("adding route to %s: %w", describeRoute(route), hint(route, err))
	}
	v.reg.put(route)
	return nil
}

// bringUp enables the device of an interface that should be enabled. Somebody else
// must have disabled it, and its routes may be repaired before itself.
func (v routes) bringUp(iface string) bool {
	value := v.reg.iface(iface)
	link, err := v.link(iface)
	return err == nil && value.GetEnabled() && interfaces(v).adjust(link, value) == nil
}

func (v routes) add(route *vpp_l3.Route, index int) error {
	index, err := v.inItsVRF(route, index)
	if err != nil {
		return err
	}
	err = v.nl.RouteAdd(kernelRoute(route, index))
	if exists(err) {
		err = v.addPath(route, index)
	}
	return err
}

func routeSupported(route *vpp_l3.Route) error {
	switch {
	case max(route.GetVrfId(), route.GetViaVrfId()) > maxVRF:
		return vrfInRange(max(route.GetVrfId(), route.GetViaVrfId()))
	case route.GetWeight() > maxWeight:
		return vswitch.Unsupported("weight %d: use at most %d", route.GetWeight(), maxWeight)
	}
	return nil
}

func hint(route *vpp_l3.Route, err error) error {
	if errors.Is(err, unix.ENETDOWN) {
		return fmt.Errorf("%w: interface %q is disabled: enable it first", err, route.GetOutgoingInterface())
	}
	return err
}

func describeRoute(route *vpp_l3.Route) string {
	text := route.GetDstNetwork()
	if gw := route.GetNextHopAddr(); gw != "" {
		text += " via " + gw
	}
	if name := route.GetOutgoingInterface(); name != "" {
		text += fmt.Sprintf(" out of interface %q", name)
	}
	if vrf := route.GetVrfId(); vrf != 0 {
		text += fmt.Sprintf(" in VRF %d", vrf)
	}
	return text
}

// withRouteDevice calls fn with the index of the outgoing device; 0: none.
func (v routes) withRouteDevice(route *vpp_l3.Route, fn func(index int) error) error {
	if route.GetOutgoingInterface() == "" || route.GetType() == vpp_l3.Route_DROP || leadsAway(route) {
		return fn(0)
	}
	return v.withDevice(route.GetOutgoingInterface(), fn)
}

// kernelRoute has a single path.
func kernelRoute(route *vpp_l3.Route, index int) *netlink.Route {
	dst := netip.MustParsePrefix(route.GetDstNetwork()).Masked()
	r := &netlink.Route{
		Family: family(dst.Addr()), Table: int(tableOf(route.GetVrfId())), Protocol: protoOurs, Dst: ipNet(dst),
		Priority: metric(route), Type: unix.RTN_UNICAST, LinkIndex: index,
	}
	switch {
	case route.GetType() == vpp_l3.Route_DROP:
		r.Type = unix.RTN_BLACKHOLE
		return r
	case leadsAway(route):
		r.Type = unix.RTN_THROW
		return r
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	switch {
	case err != nil:
		r.Scope = netlink.SCOPE_LINK
	case index != 0:
		// The model says where the next hop is, so the kernel need not know.
		r.Gw, r.Flags = gw.AsSlice(), unix.RTNH_F_ONLINK
	default:
		r.Gw = gw.AsSlice()
	}
	return r
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func metric(route *vpp_l3.Route) int {
	if netip.MustParsePrefix(route.GetDstNetwork()).Addr().Is6() && route.GetPreference() == 0 {
		return defaultMetric6
	}
	return int(route.GetPreference())
}

// path is one next hop of a route; gw and index may be unset.
type path struct {
	gw     netip.Addr
	index  int
	weight uint32
}

func pathsOf(r *netlink.Route) []path {
	if len(r.MultiPath) == 0 {
		return []path{{addrOf(r.Gw), r.LinkIndex, 1}}
	}
	paths := make([]path, len(r.MultiPath))
	for i, hop := range r.MultiPath {
		paths[i] = path{addrOf(hop.Gw), hop.LinkIndex, uint32(hop.Hops) + 1}
	}
	return paths
}

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// goesTo tells if a path is the one that a single-path route wants. Without a
// device, the kernel has chosen one.
func (p path) goesTo(want *netlink.Route) bool {
	return p.gw == addrOf(want.Gw) && (want.LinkIndex == 0 || p.index == want.LinkIndex)
}

// sameDestination reads the route with destination and metric of r, nil if none.
// IPv6 may return its paths as routes of their own: they are put together.
func (v routes) sameDestination(r *netlink.Route) (*netlink.Route, error) {
	list, err := dump(func() ([]netlink.Route, error) {
		return v.nl.RouteListFiltered(r.Family, &netlink.Route{Dst: r.Dst, Table: r.Table}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	var found *netlink.Route
	for _, e := range list {
		switch {
		case e.Priority != r.Priority || e.Dst.String() != r.Dst.String():
		case found == nil:
			found = &e
		default:
			setPaths(found, append(pathsOf(found), pathsOf(&e)...))
		}
	}
	return found, nil
}

func setPaths(r *netlink.Route, paths []path) {
	r.MultiPath, r.Gw, r.LinkIndex, r.Flags = nil, nil, 0, 0
	for _, p := range paths {
		hop := &netlink.NexthopInfo{LinkIndex: p.index, Hops: int(p.weight) - 1, Flags: unix.RTNH_F_ONLINK}
		if p.gw.IsValid() {
			hop.Gw = p.gw.AsSlice()
		} else {
			hop.Flags = 0
		}
		r.MultiPath = append(r.MultiPath, hop)
	}
	if len(r.MultiPath) == 1 {
		only := r.MultiPath[0]
		r.MultiPath, r.Gw, r.LinkIndex, r.Flags = nil, only.Gw, only.LinkIndex, only.Flags
	}
}

// addPath handles a destination that has a route already: the same, another path
// of ours to join, or somebody else's.
func (v routes) addPath(route *vpp_l3.Route, index int) error {
	want := kernelRoute(route, index)
	have, err := v.sameDestination(want)
	switch {
	case err != nil:
		return err
	case have == nil:
		return v.nl.RouteAdd(want) // it has gone meanwhile
	case have.Protocol != protoOurs:
		return fmt.Errorf("there is a route that is not ours (%s): remove it, or give this one another preference", foreignRoute(have))
	case have.Type != want.Type:
		return fmt.Errorf("there is a route of another type to the same destination with the same preference")
	case have.Type != unix.RTN_UNICAST:
		return nil
	}
	if want.LinkIndex == 0 {
		// Only the kernel knows which device leads to the next hop.
		if hops, err := v.nl.RouteGet(want.Gw); err == nil && len(hops) > 0 {
			want.LinkIndex = hops[0].LinkIndex
		}
	}
	weight := max(route.GetWeight(), 1)
	paths := pathsOf(have)
	if i := slices.IndexFunc(paths, func(p path) bool { return p.goesTo(want) }); i < 0 {
		v.weigh(paths, route)
		paths = append(paths, path{addrOf(want.Gw), want.LinkIndex, weight})
	} else if len(paths) == 1 || paths[i].weight == weight {
		return nil
	} else {
		paths[i].weight = weight
	}
	setPaths(have, paths)
	return v.nl.RouteReplace(have)
}

// weigh gives a path that was alone, and so had no weight, the one that its
// value asks for.
func (v routes) weigh(paths []path, other *vpp_l3.Route) {
	if len(paths) != 1 {
		return
	}
	dst := netip.MustParsePrefix(other.GetDstNetwork()).Masked()
	for _, known := range v.reg.routesTo(dst) {
		gw, _ := netip.ParseAddr(known.GetNextHopAddr())
		if gw == paths[0].gw && known.GetPreference() == other.GetPreference() && known.GetVrfId() == other.GetVrfId() {
			paths[0].weight = max(known.GetWeight(), 1)
		}
	}
}

func foreignRoute(r *netlink.Route) string {
	text := fmt.Sprintf("protocol %d", r.Protocol)
	if r.Gw != nil {
		text += fmt.Sprintf(", via %s", r.Gw)
	}
	return text
}

func (v routes) Delete(_ context.Context, route *vpp_l3.Route) error {
	err := v.reg.during(route, func() error {
		err := ignoreGone(v.withRouteDevice(route, func(index int) error { return v.deletePath(route, index) }))
		if err == nil && leadsAway(route) {
			err = v.leadBack(route)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting route to %s: %w", describeRoute(route), err)
	}
	return nil
}

// deletePath: a request to delete one path of a multipath route may delete all of
// them, so that a route that may have others is read first.
func (v routes) deletePath(route *vpp_l3.Route, index int) error {
	want := kernelRoute(route, index)
	dst := netip.MustParsePrefix(route.GetDstNetwork()).Masked()
	if len(v.reg.routesTo(dst)) == 0 {
		return v.nl.RouteDel(want)
	}
	have, err := v.sameDestination(want)
	if err != nil || have == nil || have.Protocol != protoOurs || have.Type != want.Type {
		return err
	}
	paths := pathsOf(have)
	rest := slices.DeleteFunc(slices.Clone(paths), func(p path) bool { return p.goesTo(want) })
	switch {
	case len(rest) == len(paths):
		return nil
	case len(rest) == 0:
		return v.nl.RouteDel(have)
	}
	setPaths(have, rest)
	return v.nl.RouteReplace(have)
}
