package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/fibpath"
	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
)

// VPP 25.10 may die when a route loses a path whose next hop only that route leads to: a
// default route to a gateway that is in no network of an interface, for example.
//
//	0.0.0.0/0 ──path──> 192.168.16.100/32 (VPP's own entry, "recursive-resolution")
//	    ^                      │
//	    └────── covered by ────┴── other such entries, and those of cnat
//
// When 0.0.0.0/0 loses the path, fib_entry_cover_update_notify walks the entries that it
// covers. The last one that forwarded by the old path frees it, and with it the entry of
// the next hop, which the walk visits next although it is freed. While there is a route
// to the next hop itself, VPP does not count that entry among the covered ones. Such a
// route drops packets; so does VPP before, since the next hop resolves through itself.

// mayCoverNextHop reports whether a path's next hop may be looked up in the entry that
// has the path.
func mayCoverNextHop(e entry, p fibpath.Path) bool {
	return p.Out == ownership.NoIndex && p.Gateway.IsValid() && p.Table == e.table && e.dst.Contains(p.Gateway) && !e.dst.IsSingleIP()
}

// deleteCovers deletes paths that mayCoverNextHop, one by one: without a route, another
// one covers its next hops.
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

// coversNextHop reports whether VPP finds the next hop of a path through the entry that has
// the path.
func (v *Routes) coversNextHop(ctx context.Context, x newRoute) (bool, error) {
	sources, err := v.fibSources(ctx)
	if err != nil {
		return false, err
	}
	host := netip.PrefixFrom(x.Gateway, x.Gateway.BitLen())
	above := netip.PrefixFrom(x.Gateway, x.Gateway.BitLen()-1).Masked() // the longest match up to there is the cover
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

// deleteCover deletes a path while there is a route to its next hop.
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
