package vpp

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

// VPP asks for the neighbour that a local SID leads to once, when the SID is made, and
// then drops what is for it as long as it does not know the neighbour; for those of
// routes, packets make it ask again. So we make it ask, until it knows the neighbour.

const (
	// askInterval is how often VPP is made to ask for a neighbour.
	askInterval = time.Second
	// warnAfter is how often it is asked for before people are told.
	warnAfter = 10
)

// nextHop is a neighbour that a local SID leads to.
type nextHop struct {
	on index
	ip netip.Addr
}

// nextHops are those of all local SIDs.
type nextHops struct {
	mu sync.Mutex
	of map[ip_types.IP6Address]nextHop // by SID
	// unsure: VPP may not know some of them.
	unsure bool
}

// put notes what a SID does.
func (n *nextHops) put(sid ip_types.IP6Address, f function) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.of, sid)
	if !f.nextHop.IsValid() {
		return
	}
	if n.of == nil {
		n.of = map[ip_types.IP6Address]nextHop{}
	}
	n.of[sid], n.unsure = nextHop{index(f.target), f.nextHop}, true
}

// replace forgets all SIDs but these.
func (n *nextHops) replace(sids map[ip_types.IP6Address]function) {
	n.mu.Lock()
	n.of = nil
	n.mu.Unlock()
	for sid, f := range sids {
		n.put(sid, f)
	}
}

// lost notes that VPP has forgotten a neighbour.
func (n *nextHops) lost(hop nextHop) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.of {
		n.unsure = n.unsure || h == hop
	}
}

// take returns the next hops if there is one that VPP may not know. Who finds one that it
// does not know, or cannot find that out, says so by doubt.
func (n *nextHops) take() (list []nextHop) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.unsure {
		return nil
	}
	n.unsure = false
	for _, h := range n.of {
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

func (n *nextHops) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsure = true
}

// askForNextHops makes VPP ask for those that it does not know, until ctx ends.
func (v *VSwitch) askForNextHops(ctx context.Context) {
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	asked := askedFor{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		hops := v.nextHops.take()
		if len(hops) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		unknown, err := v.unknown(ctx, hops)
		if err != nil || len(unknown) > 0 {
			v.nextHops.doubt()
			v.askFor(ctx, unknown)
		}
		for _, h := range asked.note(unknown) {
			v.log.Warn("The neighbour that a local SID leads to does not answer: what is for it is dropped",
				"neighbour", h.ip, "interface", v.ifs.seen(h.on))
		}
		cancel()
	}
}

// askedFor counts how often VPP asked for each neighbour that has not answered.
type askedFor map[nextHop]int

// note takes those that VPP asks for now, and returns those that people are to be told of.
func (a askedFor) note(unknown []nextHop) (silent []nextHop) {
	maps.DeleteFunc(a, func(h nextHop, _ int) bool { return !slices.Contains(unknown, h) })
	for _, h := range unknown {
		if a[h]++; a[h] == warnAfter {
			silent = append(silent, h)
		}
	}
	return silent
}

// unknown returns the next hops of which VPP knows no hardware address.
func (v *VSwitch) unknown(ctx context.Context, hops []nextHop) ([]nextHop, error) {
	type from struct {
		on   index
		ipv6 bool
	}
	dumps := map[from]*pendingDump[ip_neighbor.IPNeighborDetails, *ip_neighbor.IPNeighborDetails]{}
	for _, h := range hops {
		f := from{h.on, h.ip.Is6()}
		if dumps[f] == nil {
			dumps[f] = startDump[ip_neighbor.IPNeighborDetails](ctx, v, neighbourModule, &ip_neighbor.IPNeighborDump{SwIfIndex: f.on, Af: familyOf(f.ipv6)})
		}
	}
	known := map[nextHop]bool{}
	for f, d := range dumps {
		all, err := d.wait(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			known[nextHop{f.on, addrOf(n.Neighbor.IPAddress)}] = true
		}
	}
	return slices.DeleteFunc(hops, func(h nextHop) bool { return known[h] }), nil
}

// askFor: VPP asks for a neighbour when it makes an adjacency, which it has one of for each
// IP version of packets. The local SID has the one of the neighbour's own version: a route
// for packets of the other version has VPP make another one. Its destination is one that
// no packet has, and it goes at once.
func (v *VSwitch) askFor(ctx context.Context, hops []nextHop) {
	reqs := make([]api.Message, 0, 2*len(hops))
	for _, h := range hops {
		reqs = append(reqs, askingRoutes(h)...)
	}
	// An interface that is gone, or down, is no neighbour's: there will be another try.
	_, _ = callAll[ip.IPRouteAddDelV2Reply](ctx, v, routeModule, reqs)
}

// askingRoutes add the route, and delete it.
func askingRoutes(h nextHop) []api.Message {
	r := ip.IPRouteV2{Prefix: prefixOf(dummyFor(h.ip)), NPaths: 1, Paths: []fib_types.FibPath{pathVia(h.ip, uint32(h.on))}}
	return []api.Message{&ip.IPRouteAddDelV2{IsAdd: true, IsMultipath: true, Route: r}, &ip.IPRouteAddDelV2{IsMultipath: true, Route: r}}
}

// The dummy addresses of RFC 7600 and RFC 9780.
var (
	dummy4 = netip.MustParsePrefix("192.0.0.8/32")
	dummy6 = netip.MustParsePrefix("100:0:0:1::/128")
)

// dummyFor returns the destination for routes by which VPP asks for a neighbour.
func dummyFor(neighbour netip.Addr) netip.Prefix {
	if neighbour.Is6() {
		return dummy4
	}
	return dummy6
}

// isQuestion tells if a path is that of a route by which VPP asks for a neighbour.
func isQuestion(e entry, p path) bool {
	return e.table == 0 && p.gw.IsValid() && e.dst == dummyFor(p.gw)
}
