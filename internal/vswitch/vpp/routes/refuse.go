package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
)

// Refused returns the networks of VRF 0 set by SetRefused, in order. No value represents these
// routes.
func (v *Routes) Refused(ctx context.Context) (list []netip.Prefix, err error) {
	sources, err := v.fibSources(ctx)
	if err != nil {
		return nil, err
	}
	for _, ipv6 := range []bool{false, true} {
		routes, err := session.Dump[ip.IPRouteV2Details](ctx, v.vpp, module, &ip.IPRouteV2Dump{Src: sources.api, Table: ip.IPTable{IsIP6: ipv6}})
		if err != nil {
			return nil, fmt.Errorf("reading routes: %w", err)
		}
		for _, r := range routes {
			if isRefuser(r.Route) || slices.ContainsFunc(fibpath.DecodeAll(r.Route.Paths), refuses) {
				list = append(list, convert.NetipPrefix(r.Route.Prefix).Masked())
			}
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list, nil
}

// refuses reports whether a path refuses packets.
func refuses(p fibpath.Path) bool {
	return p.Out == ownership.NoIndex && p.Gateway.IsValid() && p.Gateway == fibpath.Refuser(p.Gateway.Is6())
}

func isRefuser(r ip.IPRouteV2) bool {
	return slices.ContainsFunc(r.Paths, func(p fib_types.FibPath) bool { return p.Type == fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT })
}

// SetRefused sets the networks of VRF 0 whose packets are answered with an ICMP error, unless a
// more specific route exists. The error is "communication prohibited", because VPP's other errors
// are not reported to UDP senders. The networks must include the refusers of their IP versions: VPP
// refuses packets to these, and routes the other networks to them. (VPP 25.10 takes a refusing path
// for one out of interface 0, and crashes when such a route becomes the cover of an address of
// cnat, or is in another VRF.)
func (v *Routes) SetRefused(ctx context.Context, networks []netip.Prefix) error {
	now, err := v.Refused(ctx)
	if err != nil {
		return err
	}
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	steps := delta.Between(set(now), set(networks), func(a, b bool) bool { return a == b })
	b := session.NewBatch(l)
	steps.Sort(delta.Order[netip.Prefix]{Keys: refusersFirst}) // the refusers come first and go last
	for _, step := range steps {
		b.Add(ctx, fmt.Sprintf("refusing packets to %s", step.Key), refusal(step.Key, step.Kind == delta.Add), &ip.IPRouteAddDelV2Reply{}, api.NO_SUCH_ENTRY)
	}
	return b.Wait(ctx)
}

func refusersFirst(a, b netip.Prefix) int {
	order := func(p netip.Prefix) int {
		if answers(p) {
			return 0
		}
		return 1
	}
	return cmp.Compare(order(a), order(b))
}

// answers reports whether it is the refuser's own route.
func answers(network netip.Prefix) bool {
	return network.Addr() == fibpath.Refuser(network.Addr().Is6())
}

func set(list []netip.Prefix) map[netip.Prefix]bool {
	m := map[netip.Prefix]bool{}
	for _, p := range list {
		m[p] = true
	}
	return m
}

func refusal(network netip.Prefix, add bool) *ip.IPRouteAddDelV2 {
	ipv6 := network.Addr().Is6()
	refuser := fibpath.Refuser(ipv6)
	path := fibpath.Path{Gateway: refuser, Out: ownership.NoIndex, Weight: 1}.Encode(ipv6)
	if answers(network) {
		path = fibpath.Path{Out: ownership.NoIndex, Weight: 1}.Encode(ipv6)
		path.Type = fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT
	}
	// A requested route to the same network keeps its paths.
	return &ip.IPRouteAddDelV2{IsAdd: add, IsMultipath: !answers(network), Route: ip.IPRouteV2{Prefix: convert.Prefix(network), NPaths: 1, Paths: []fib_types.FibPath{path}}}
}
