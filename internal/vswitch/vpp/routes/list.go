package routes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
)

// List reads the routes of all tables with the source "API", and those that cnat hides.
func (v *Routes) List(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	pending := v.ifs.Start(ctx)
	sources, err := v.fibSources(ctx)
	if err != nil {
		return nil, err
	}
	tables, err := session.Dump[ip.IPTableDetails](ctx, v.vpp, module, &ip.IPTableDump{})
	if err != nil {
		return nil, fmt.Errorf("reading VRF tables: %w", err)
	}
	var dumps []*session.Pending[ip.IPRouteV2Details, *ip.IPRouteV2Details]
	for _, t := range tables {
		if t.Table.TableID != convert.NoTable {
			dumps = append(dumps, session.StartDump[ip.IPRouteV2Details](ctx, v.vpp, module, &ip.IPRouteV2Dump{Src: sources.api, Table: t.Table}))
		}
	}
	if sources.cnat != 0 { // in VRF 0 only
		for _, ipv6 := range []bool{false, true} {
			dumps = append(dumps, session.StartDump[ip.IPRouteV2Details](ctx, v.vpp, module, &ip.IPRouteV2Dump{Src: sources.cnat, Table: ip.IPTable{IsIP6: ipv6}}))
		}
	}
	names, err := ownership.WaitNames(ctx, pending)
	d := v.newDecoder(names, expected)
	for _, dump := range dumps {
		all, dumpErr := dump.Wait(ctx)
		if err == nil && dumpErr != nil {
			err = fmt.Errorf("reading routes: %w", dumpErr)
		}
		for _, r := range all {
			if r.Route.Src == sources.cnat {
				d.addHidden(r.Route)
			} else {
				d.add(r.Route)
			}
		}
	}
	return d.list, err
}

// Find looks up the destinations.
func (v *Routes) Find(ctx context.Context, expected []*vpp_l3.Route) ([]*vpp_l3.Route, error) {
	pending := v.ifs.Start(ctx)
	sources, err := v.fibSources(ctx)
	if err != nil {
		return nil, err
	}
	var reqs []api.Message
	seen := map[entry]bool{}
	for _, r := range expected {
		e, err := entryOf(r)
		if err != nil {
			return nil, err
		}
		if !seen[e] {
			seen[e] = true
			reqs = append(reqs, e.lookup())
		}
	}
	found, errs := session.CallAll[ip.IPRouteLookupV2Reply](ctx, v.vpp, module, reqs)
	names, err := ownership.WaitNames(ctx, pending)
	if err != nil {
		return nil, err
	}
	d := v.newDecoder(names, expected)
	for i, f := range found {
		switch {
		case vppapi.Refused(errs[i], api.NO_SUCH_ENTRY) || vppapi.Refused(errs[i], api.NO_SUCH_FIB):
		case errs[i] != nil:
			return nil, fmt.Errorf("looking up routes: %w", errs[i])
		case f.Route.Src == sources.api:
			d.add(f.Route)
		case f.Route.Src == sources.cnat && sources.cnat != 0:
			d.addHidden(f.Route)
		}
	}
	return slices.DeleteFunc(d.list, func(r *vpp_l3.Route) bool { return !d.isExpected[r] }), nil
}

// routeID identifies a route, whatever the notation of its addresses.
type routeID struct {
	entry
	gw  netip.Addr
	out string
}

// routeDecoder creates northbound values from VPP's entries.
type routeDecoder struct {
	passing    func(dst netip.Prefix, gw netip.Addr) bool
	names      ownership.Names
	expected   map[routeID]*vpp_l3.Route
	drops      map[entry]*vpp_l3.Route // of the expected ones
	list       []*vpp_l3.Route
	isExpected map[*vpp_l3.Route]bool
}

func (v *Routes) newDecoder(names ownership.Names, expected []*vpp_l3.Route) *routeDecoder {
	d := &routeDecoder{
		passing: v.passing, names: names, expected: make(map[routeID]*vpp_l3.Route, len(expected)), drops: map[entry]*vpp_l3.Route{}, isExpected: map[*vpp_l3.Route]bool{},
	}
	for _, r := range expected {
		id := routeID{out: r.GetOutgoingInterface()}
		id.entry, _ = entryOf(r)
		id.gw, _ = netip.ParseAddr(r.GetNextHopAddr())
		d.expected[id] = r
		if r.GetType() == vpp_l3.Route_DROP {
			d.drops[id.entry] = r
		}
	}
	return d
}

// addHidden adds the expected routes at an address of cnat, such as an external client's. VPP
// reports the paths of such an entry without cnat, but not their owner: a route, or the network
// around it.
func (d *routeDecoder) addHidden(r ip.IPRouteV2) {
	seen := len(d.list)
	d.add(r)
	hidden := slices.DeleteFunc(slices.Clone(d.list[seen:]), func(r *vpp_l3.Route) bool { return !d.isExpected[r] })
	d.list = append(d.list[:seen], hidden...)
}

// add adds a value for each path of an entry.
func (d *routeDecoder) add(r ip.IPRouteV2) {
	e := entry{r.TableID, convert.NetipPrefix(r.Prefix).Masked()}
	for _, f := range r.Paths {
		p, ok := fibpath.Decode(f)
		if !ok || e.table == 0 && (d.passing(e.dst, p.Gateway) || refuses(p)) {
			continue
		}
		route := &vpp_l3.Route{VrfId: e.table, DstNetwork: e.dst.String(), Weight: uint32(p.Weight), Preference: uint32(p.Preference)}
		id := routeID{entry: e, gw: p.Gateway}
		switch {
		case p.Drop:
			route.Type = vpp_l3.Route_DROP
		case p.Out != ownership.NoIndex:
			var ours bool
			if id.out, ours = d.names.Of(p.Out); !ours {
				continue
			}
			route.OutgoingInterface = id.out
			// For a host route without next hop, VPP uses the destination as next hop.
			if without := id; e.dst.IsSingleIP() && p.Gateway == e.dst.Addr() && d.expected[id] == nil {
				without.gw = netip.Addr{}
				if d.expected[without] != nil {
					p.Gateway, id = netip.Addr{}, without
				}
			}
		case p.Table != e.table || !p.Gateway.IsValid():
			route.Type, route.ViaVrfId = vpp_l3.Route_INTER_VRF, p.Table
		}
		if p.Gateway.IsValid() {
			route.NextHopAddr = p.Gateway.String()
		}
		if want := d.want(id, route); want != nil {
			route.DstNetwork, route.NextHopAddr, route.OutgoingInterface = want.GetDstNetwork(), want.GetNextHopAddr(), want.GetOutgoingInterface()
			if routesSameAsFound(want, route) {
				route.Type, route.ViaVrfId = want.GetType(), want.GetViaVrfId()
			}
			d.isExpected[route] = true
		}
		d.list = append(d.list, route)
	}
}

// want returns the expected value. Irrelevant fields of a dropping route may have any value.
func (d *routeDecoder) want(id routeID, found *vpp_l3.Route) *vpp_l3.Route {
	if w := d.drops[id.entry]; w != nil && found.GetType() == vpp_l3.Route_DROP {
		return w
	}
	return d.expected[id]
}

// routesSameAsFound reports whether VPP stores two routes of one key identically. The type of a
// route out of an interface is irrelevant, as is a lookup of the next hop in the same table or an
// equal one.
func routesSameAsFound(want, found *vpp_l3.Route) bool {
	switch {
	case want.GetType() == found.GetType():
		return found.GetType() != vpp_l3.Route_INTER_VRF || want.GetViaVrfId() == found.GetViaVrfId()
	case want.GetType() == vpp_l3.Route_DROP || found.GetType() == vpp_l3.Route_DROP:
		return false
	case found.GetOutgoingInterface() != "":
		return true
	}
	return want.GetType() == vpp_l3.Route_INTER_VRF && want.GetViaVrfId() == want.GetVrfId()
}
