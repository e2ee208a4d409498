package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/kernel/vrf"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Driver configures the routes and L3 cross-connects of one network namespace.
type Driver struct {
	*own.Host
	vrf     *vrf.Driver
	links   Enabler
	blocked blocked
}

// Enabler enables the devices of interfaces.
type Enabler interface {
	// EnableDevice enables the device of an interface that should be enabled, and reports whether it
	// succeeded.
	EnableDevice(iface string) bool
}

// New returns a Driver, which needs no closing.
func New(host *own.Host, vrfs *vrf.Driver, links Enabler) *Driver {
	return &Driver{Host: host, vrf: vrfs, links: links}
}

type routes struct{ *Driver }

func (v *Driver) RoutePort() vswitch.Routes { return routes{v} }

func (v routes) Create(_ context.Context, route *vpp_l3.Route) error {
	if err := routeSupported(route); err != nil {
		return err
	}
	if dst, err := netip.ParsePrefix(route.GetDstNetwork()); err == nil && dst.Addr().Is6() {
		if err := v.EnableForwarding6(); err != nil {
			return err
		}
	}
	if err := v.routeTableExists(route); err != nil {
		return fmt.Errorf("adding route to %s: %w", describeRoute(route), err)
	}
	if own.LeadsAway(route) {
		if err := v.checkLead(route); err != nil {
			return fmt.Errorf("adding route to %s: %w", describeRoute(route), err)
		}
	}
	err := v.withRouteDevice(route, func(index int) error {
		err := v.add(route, index)
		if errors.Is(err, unix.ENETDOWN) && v.links.EnableDevice(route.GetOutgoingInterface()) {
			err = v.add(route, index)
		}
		return err
	})
	v.blocked.note(route, err)
	if err != nil {
		return fmt.Errorf("adding route to %s: %w", describeRoute(route), hint(route, err))
	}
	v.Reg.Put(route)
	return nil
}

func (v routes) add(route *vpp_l3.Route, index int) error {
	index, err := v.inItsVRF(route, index)
	if err != nil {
		return err
	}
	err = v.Net.RouteAdd(kernelRoute(route, index))
	if rtnl.Exists(err) {
		err = v.addPath(route, index)
	}
	return err
}

func routeSupported(route *vpp_l3.Route) error {
	switch {
	case max(route.GetVrfId(), route.GetViaVrfId()) > own.MaxVRF:
		return own.VRFInRange(max(route.GetVrfId(), route.GetViaVrfId()))
	case route.GetWeight() > own.MaxWeight:
		return vswitch.Unsupported("weight %d: use at most %d", route.GetWeight(), own.MaxWeight)
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

func (v routes) withRouteDevice(route *vpp_l3.Route, fn func(index int) error) error {
	switch {
	case own.LeadsAway(route):
		index, err := v.vrf.DeviceTo(route.GetViaVrfId())
		if err != nil {
			return err
		}
		return fn(index)
	case route.GetOutgoingInterface() == "" || route.GetType() == vpp_l3.Route_DROP:
		return fn(0)
	}
	return v.WithDevice(route.GetOutgoingInterface(), fn)
}

func kernelRoute(route *vpp_l3.Route, index int) *netlink.Route {
	dst := netip.MustParsePrefix(route.GetDstNetwork()).Masked()
	r := &netlink.Route{
		Family: rtnl.Family(dst.Addr()), Table: int(own.TableOf(route.GetVrfId())), Protocol: own.ProtoOurs, Dst: own.IPNet(dst),
		Priority: metric(route), Type: unix.RTN_UNICAST, LinkIndex: index,
	}
	switch {
	case route.GetType() == vpp_l3.Route_DROP:
		r.Type = unix.RTN_BLACKHOLE
		return r
	case own.LeadsAway(route) && index == 0:
		r.Type = unix.RTN_THROW
		return r
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	switch {
	case err != nil || own.LeadsAway(route):
		r.Scope = netlink.SCOPE_LINK
	case index != 0:
		r.Gw, r.Flags = gw.AsSlice(), unix.RTNH_F_ONLINK
	default:
		r.Gw = gw.AsSlice()
	}
	return r
}

func metric(route *vpp_l3.Route) int {
	if netip.MustParsePrefix(route.GetDstNetwork()).Addr().Is6() && route.GetPreference() == 0 {
		return own.DefaultMetric6
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
		return []path{{own.AddrOf(r.Gw), r.LinkIndex, 1}}
	}
	paths := make([]path, len(r.MultiPath))
	for i, hop := range r.MultiPath {
		paths[i] = path{own.AddrOf(hop.Gw), hop.LinkIndex, uint32(hop.Hops) + 1}
	}
	return paths
}

// goesTo reports whether a path is the one that a single-path route wants. Without a wanted device,
// any device matches.
func (p path) goesTo(want *netlink.Route) bool {
	return p.gw == own.AddrOf(want.Gw) && (want.LinkIndex == 0 || p.index == want.LinkIndex)
}

// sameDestination reads the route with the destination and metric of r; nil if none. IPv6 may
// return paths as separate routes, which it merges.
func (v routes) sameDestination(r *netlink.Route) (*netlink.Route, error) {
	list, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return v.Net.RouteListFiltered(r.Family, &netlink.Route{Dst: r.Dst, Table: r.Table}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
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

// addPath handles a destination that already has a route: the same route, a route of ours to extend
// by a path, or a foreign one.
func (v routes) addPath(route *vpp_l3.Route, index int) error {
	want := kernelRoute(route, index)
	have, err := v.sameDestination(want)
	switch {
	case err != nil:
		return err
	case have == nil:
		return v.Net.RouteAdd(want)
	case have.Protocol != own.ProtoOurs:
		return fmt.Errorf("%w (%s): remove it, or use another preference", errInTheWay, foreignRoute(have))
	case have.Type != want.Type:
		return fmt.Errorf("another route to the same destination has the same preference and another type")
	case have.Type != unix.RTN_UNICAST:
		return nil
	}
	if want.LinkIndex == 0 {
		// Only the kernel knows the device of the next hop.
		if hops, err := v.Net.RouteGet(want.Gw); err == nil && len(hops) > 0 {
			want.LinkIndex = hops[0].LinkIndex
		}
	}
	weight := max(route.GetWeight(), 1)
	paths := pathsOf(have)
	if i := slices.IndexFunc(paths, func(p path) bool { return p.goesTo(want) }); i < 0 {
		v.weigh(paths, route)
		paths = append(paths, path{own.AddrOf(want.Gw), want.LinkIndex, weight})
	} else if len(paths) == 1 || paths[i].weight == weight {
		return nil
	} else {
		paths[i].weight = weight
	}
	setPaths(have, paths)
	return v.Net.RouteReplace(have)
}

// weigh sets the weight of a path that was the only one, and so had none.
func (v routes) weigh(paths []path, other *vpp_l3.Route) {
	if len(paths) != 1 {
		return
	}
	dst := netip.MustParsePrefix(other.GetDstNetwork()).Masked()
	for _, known := range v.Reg.RoutesTo(dst) {
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
	v.blocked.note(route, nil)
	err := v.Reg.During(route, func() error {
		return rtnl.IgnoreGone(v.withRouteDevice(route, func(index int) error { return v.deletePath(route, index) }))
	})
	if err != nil {
		return fmt.Errorf("deleting route to %s: %w", describeRoute(route), err)
	}
	return nil
}

// deletePath reads a route that may have other paths first, because deleting one path of a
// multipath route may delete all.
func (v routes) deletePath(route *vpp_l3.Route, index int) error {
	want := kernelRoute(route, index)
	dst := netip.MustParsePrefix(route.GetDstNetwork()).Masked()
	if len(v.Reg.RoutesTo(dst)) == 0 {
		return v.Net.RouteDel(want)
	}
	have, err := v.sameDestination(want)
	if err != nil || have == nil || have.Protocol != own.ProtoOurs || have.Type != want.Type {
		return err
	}
	paths := pathsOf(have)
	rest := slices.DeleteFunc(slices.Clone(paths), func(p path) bool { return p.goesTo(want) })
	switch {
	case len(rest) == len(paths):
		return nil
	case len(rest) == 0:
		return v.Net.RouteDel(have)
	}
	setPaths(have, rest)
	return v.Net.RouteReplace(have)
}
