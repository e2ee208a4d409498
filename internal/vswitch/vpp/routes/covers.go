package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
)

// VPP 25.10 may crash when a route loses a path whose next hop is reached only through that route,
// such as a default route to a gateway outside all interface networks.
//
//	0.0.0.0/0 ──path──> 192.168.16.100/32 (VPP's own entry, "recursive-resolution")
//	    ^                      │
//	    └────── covered by ────┴── other such entries, and cnat's
//
// When 0.0.0.0/0 loses the path, fib_entry_cover_update_notify walks the entries that it covers.
// The last one that forwarded by the old path frees it, and with it the entry of the next hop,
// which the walk then visits. While a route to the next hop itself exists, VPP does not count that
// entry as covered. Such a route drops packets, as VPP did before, because the next hop resolved
// through itself.

// mayCoverNextHop reports whether a path's next hop may be looked up in the entry that
// has the path.
func mayCoverNextHop(e entry, p fibpath.Path) bool {
	return p.Out == ownership.NoIndex && p.Gateway.IsValid() && p.Table == e.table && e.dst.Contains(p.Gateway) && !e.dst.IsSingleIP()
}

// deleteCovers deletes paths for which mayCoverNextHop is true, one by one: after a deletion,
// another route covers its next hops.
func (v *Routes) deleteCovers(ctx context.Context, all []*vpp_l3.Route, w []newRoute, errs []error) {
	slices.SortStableFunc(w, func(a, b newRoute) int { return cmp.Compare(b.dst.Bits(), a.dst.Bits()) })
	for _, x := range w {
		covers, err := v.coversNextHop(ctx, x)
		switch {
		case err != nil:
			errs[x.i] = err
		case covers:
			errs[x.i] = v.deleteCover(ctx, x)
		default:
			v.deleteAll(ctx, all, []newRoute{x}, errs)
		}
	}
}

// coversNextHop reports whether VPP finds a path's next hop through the entry with the path.
func (v *Routes) coversNextHop(ctx context.Context, x newRoute) (bool, error) {
	sources, err := v.fibSources(ctx)
	if err != nil {
		return false, err
	}
	host := netip.PrefixFrom(x.Gateway, x.Gateway.BitLen())
	above := netip.PrefixFrom(x.Gateway, x.Gateway.BitLen()-1).Masked() // the longest match above it is the cover
	var self, cover ip.IPRouteLookupV2Reply
	for _, q := range []struct {
		req   *ip.IPRouteLookupV2
		reply *ip.IPRouteLookupV2Reply
	}{
		{entry{x.table, host}.lookup(), &self},
		{&ip.IPRouteLookupV2{TableID: x.table, Prefix: convert.Prefix(above)}, &cover},
	} {
		err := v.vpp.Call(ctx, module, q.req, q.reply)
		switch {
		case vppapi.Refused(err, api.NO_SUCH_ENTRY, api.NO_SUCH_FIB):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("looking up next hop %v: %w", x.Gateway, err)
		}
	}
	return self.Route.Src == sources.nextHop && convert.NetipPrefix(cover.Route.Prefix).Masked() == x.dst, nil
}

// deleteCover deletes a path while a route to its next hop exists.
func (v *Routes) deleteCover(ctx context.Context, x newRoute) error {
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	hold := newRoute{entry: entry{x.table, netip.PrefixFrom(x.Gateway, x.Gateway.BitLen())}, Path: fibpath.Path{Drop: true, Out: ownership.NoIndex, Weight: 1}}
	b := session.NewBatch(l)
	b.Add(ctx, fmt.Sprintf("holding next hop %v", x.Gateway), addPath(hold), &ip.IPRouteAddDelV2Reply{})
	b.Add(ctx, "removing the path", deletePath(x), &ip.IPRouteAddDelV2Reply{}, api.NO_SUCH_FIB)
	b.Add(ctx, fmt.Sprintf("releasing next hop %v", x.Gateway), deletePath(hold), &ip.IPRouteAddDelV2Reply{}, api.NO_SUCH_FIB)
	return b.Wait(ctx)
}
