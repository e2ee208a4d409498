package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type routeItem = kvscheduler.Item[*linux_l3.Route, kvscheduler.NoMetadata]

// retrieveRoutes reads our routes from all configured interfaces.
func (p *Plugin) retrieveRoutes(ctx context.Context, expected []routeItem) ([]routeItem, error) {
	return p.readRoutes(ctx, expected, p.inventory.names(), false)
}

func (p *Plugin) retrieveRouteKeys(ctx context.Context, expected []routeItem) ([]routeItem, error) {
	var interfaces []string
	for _, item := range expected {
		interfaces = append(interfaces, item.Value.GetOutgoingInterface())
	}
	return p.readRoutes(ctx, expected, interfaces, true)
}

func (p *Plugin) readRoutes(ctx context.Context, expected []routeItem, interfaces []string, onlyExpected bool) ([]routeItem, error) {
	type pair struct {
		routeItem
		resolved *linux_l3.Route
	}
	want := make(map[string]pair, len(expected)) // by the key of the resolved route
	for _, item := range expected {
		if !onlyExpected {
			p.inventory.removeRoute(item.Key, item.Value)
		}
		if resolved, err := p.resolveRoute(item.Value); err == nil { // unresolved routes do not exist
			want[models.Key(resolved)] = pair{item, resolved}
		}
	}
	items := map[string]routeItem{}
	err := p.eachNamespace(ctx, interfaces, func(ns *namespaces.Namespace, devices map[int]*linuxInterface) error {
		routes, err := ownRoutes(ns)
		if err != nil {
			return err
		}
		for _, r := range routes {
			iface := devices[r.LinkIndex]
			if iface == nil || r.Type != unix.RTN_UNICAST {
				continue
			}
			v := describeRoute(iface.GetName(), r)
			key := models.Key(v)
			wanted, isWanted := want[key]
			if !isWanted && (onlyExpected || isExisting(iface)) {
				continue
			}
			if isWanted {
				adoptTexts(v, wanted.resolved)
			}
			// If several routes with different metrics have one key, the wanted one wins.
			if _, twice := items[key]; twice && !(isWanted && equivalentRoutes(v, wanted.resolved)) {
				continue
			}
			items[key] = routeItem{Key: key, Value: v, Origin: kvscheduler.FromNB}
			if isWanted {
				items[key] = routeItem{Key: wanted.Key, Value: restoreRoute(v, wanted.resolved, wanted.Value), Origin: kvscheduler.FromNB}
				key = wanted.Key
			}
			if onlyExpected {
				p.inventory.noteRoute(key, v)
			} else {
				p.inventory.putRoute(key, v)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("retrieve routes: %w", err)
	}
	sorted := make([]routeItem, 0, len(items))
	for _, item := range items {
		sorted = append(sorted, item)
	}
	slices.SortFunc(sorted, func(a, b routeItem) int { return strings.Compare(a.Key, b.Key) })
	return sorted, nil
}

func describeRoute(iface string, r netlink.Route) *linux_l3.Route {
	v := &linux_l3.Route{OutgoingInterface: iface, Metric: uint32(r.Priority)}
	dst := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if r.Family == netlink.FAMILY_V6 {
		dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if r.Dst != nil {
		if ip, ok := netip.AddrFromSlice(r.Dst.IP); ok { // netlink gives 0.0.0.0 as ::ffff:0.0.0.0
			if r.Family == netlink.FAMILY_V4 {
				ip = ip.Unmap()
			}
			bits, _ := r.Dst.Mask.Size()
			dst = netip.PrefixFrom(ip, bits)
		}
	}
	v.DstNetwork = dst.String()
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		v.GwAddr = gw.String()
	}
	for scope, kernel := range kernelScopes {
		if kernel == r.Scope {
			v.Scope = scope
		}
	}
	if dst.Addr().Is6() { // the kernel keeps no scope
		v.Scope = linux_l3.Route_UNDEFINED
		v.Scope = scopeOf(v)
	}
	return v
}

// adoptTexts uses the requested spelling where it means the same.
func adoptTexts(v, want *linux_l3.Route) {
	wantDst, _ := destination(want)
	if dst, _ := destination(v); dst == wantDst {
		v.DstNetwork = want.GetDstNetwork()
	}
	if wantDst.Addr().Is6() {
		v.Scope = want.GetScope()
	} else if scopeOf(want) == v.GetScope() {
		v.Scope = want.GetScope()
	}
	if gateway(v) == gateway(want) {
		v.GwAddr = want.GetGwAddr()
	}
	if metricOf(v) == metricOf(want) {
		v.Metric = want.GetMetric()
	}
}

// eachNamespace calls read once for each namespace of the interfaces, with the interfaces by device
// index. It skips namespaces that are gone.
func (p *Plugin) eachNamespace(ctx context.Context, interfaces []string, read func(*namespaces.Namespace, map[int]*linuxInterface) error) error {
	devices := map[namespaces.ID]map[int]*linuxInterface{}
	for _, name := range interfaces {
		v, device, ok := p.inventory.get(name)
		if !ok {
			continue
		}
		if devices[device.ns] == nil {
			devices[device.ns] = map[int]*linuxInterface{}
		}
		devices[device.ns][device.index] = v
	}
	for id, in := range devices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.readNamespace(id, in, read); err != nil && !errors.Is(err, namespaces.ErrGone) {
			return err
		}
	}
	return nil
}

func (p *Plugin) readNamespace(id namespaces.ID, devices map[int]*linuxInterface, read func(*namespaces.Namespace, map[int]*linuxInterface) error) error {
	for _, v := range devices {
		ns, err := p.namespaces.Acquire(v.GetNamespace())
		if err != nil {
			return err
		}
		defer p.namespaces.Release(ns)
		if ns.ID != id {
			return nil // the path now leads to another namespace
		}
		return read(ns, devices)
	}
	return nil
}
