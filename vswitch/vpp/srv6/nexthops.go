package srv6

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

// VPP asks for the neighbour that a local SID leads to once, when the SID is made, and
// then drops what is for it as long as it does not know the neighbour; for those of
// routes, packets make it ask again. So we make it ask, until it knows the neighbour.

var askModule = session.NewModule("", "asking for next hops",
	&ip_neighbor.IPNeighborDump{}, &ip_neighbor.IPNeighborDetails{}, &ip.IPRouteAddDelV2{}, &ip.IPRouteAddDelV2Reply{},
)

const (
	// askInterval is how often VPP is made to ask for a neighbour.
	askInterval = time.Second
	// warnAfter is how often it is asked for before people are told.
	warnAfter = 10
)

// nextHop is a neighbour that a local SID leads to.
type nextHop struct {
	on ownership.Index
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
	n.of[sid], n.unsure = nextHop{ownership.Index(f.target), f.nextHop}, true
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

// Follow makes VPP ask for those that it does not know, until ctx ends.
func (v *SRv6) Follow(ctx context.Context) {
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
		ctx, cancel := context.WithTimeout(ctx, session.Timeout)
		unknown, err := v.unknown(ctx, hops)
		if err != nil || len(unknown) > 0 {
			v.nextHops.doubt()
			v.askFor(ctx, unknown)
		}
		for _, h := range asked.note(unknown) {
			v.log.Warn("The neighbour that a local SID leads to does not answer: what is for it is dropped",
				"neighbour", h.ip, "interface", v.ifs.Seen(h.on))
		}
		cancel()
	}
}

// askedFor counts how often VPP asked for each neighbour that has not answered.
type askedFor map[nextHop]int

// note records the neighbours that VPP asks for now, and returns those to be reported to users.
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
func (v *SRv6) unknown(ctx context.Context, hops []nextHop) ([]nextHop, error) {
	type from struct {
		on   ownership.Index
		ipv6 bool
	}
	dumps := map[from]*session.Pending[ip_neighbor.IPNeighborDetails, *ip_neighbor.IPNeighborDetails]{}
	for _, h := range hops {
		f := from{h.on, h.ip.Is6()}
		if dumps[f] == nil {
			dumps[f] = session.StartDump[ip_neighbor.IPNeighborDetails](ctx, v.vpp, askModule, &ip_neighbor.IPNeighborDump{SwIfIndex: f.on, Af: convert.Family(f.ipv6)})
		}
	}
	known := map[nextHop]bool{}
	for f, d := range dumps {
		all, err := d.Wait(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			known[nextHop{f.on, convert.Addr(n.Neighbor.IPAddress)}] = true
		}
	}
	return slices.DeleteFunc(hops, func(h nextHop) bool { return known[h] }), nil
}

// askFor: VPP asks for a neighbour when it makes an adjacency, which it has one of for each
// IP version of packets. The local SID has the one of the neighbour's own version: a route
// for packets of the other version has VPP make another one. Its destination is one that
// no packet has, and it goes at once.
func (v *SRv6) askFor(ctx context.Context, hops []nextHop) {
	for _, h := range hops {
		// An interface that is gone, or down, is no neighbour's: there will be another try.
		_ = v.Ask(ctx, h.on, h.ip)
	}
}

// Ask makes VPP ask for a neighbour on an interface.
func (v *SRv6) Ask(ctx context.Context, on ownership.Index, neighbour netip.Addr) error {
	_, errs := session.CallAll[ip.IPRouteAddDelV2Reply](ctx, v.vpp, askModule, askingRoutes(nextHop{on, neighbour}))
	return session.FirstError(errs)
}

// askingRoutes add the route, and delete it.
func askingRoutes(h nextHop) []api.Message {
	r := ip.IPRouteV2{Prefix: convert.Prefix(dummyFor(h.ip)), NPaths: 1, Paths: []fib_types.FibPath{convert.PathVia(h.ip, uint32(h.on))}}
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

// IsQuestion reports whether a path in VRF 0 is that of a temporary route by which VPP asks for a
// neighbour. No value represents it.
func IsQuestion(dst netip.Prefix, gw netip.Addr) bool { return gw.IsValid() && dst == dummyFor(gw) }
