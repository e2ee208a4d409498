package srv6

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

// VPP resolves a local SID's neighbour only once, when the SID is created, and drops its packets
// while the neighbour is unknown. (For routes, packets trigger resolution.) So Follow triggers
// resolution until the neighbour is known.

var askModule = session.NewModule("", "asking for next hops",
	&ip_neighbor.IPNeighborDump{}, &ip_neighbor.IPNeighborDetails{}, &ip.IPRouteAddDelV2{}, &ip.IPRouteAddDelV2Reply{},
)

const (
	// askInterval is the interval of resolution attempts.
	askInterval = time.Second
	// warnAfter is the number of attempts before a warning.
	warnAfter = 10
)

// nextHop is a neighbour of a local SID.
type nextHop struct {
	on ownership.Index
	ip netip.Addr
}

// nextHops holds the neighbours of all local SIDs.
type nextHops struct {
	mu sync.Mutex
	of map[ip_types.IP6Address]nextHop // by SID
	// unsure: some may be unknown to VPP.
	unsure bool
}

// put records a SID's function.
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

// lost records that VPP has forgotten a neighbour.
func (n *nextHops) lost(hop nextHop) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.of {
		n.unsure = n.unsure || h == hop
	}
}

// take returns the next hops if some may be unknown to VPP. A caller that finds an unknown one, or
// fails, calls doubt.
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

// Follow resolves unknown neighbours until ctx ends.
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
			v.log.Warn("Neighbour of a local SID not resolved; packets dropped",
				"neighbour", h.ip, "interface", v.ifs.Seen(h.on))
		}
		cancel()
	}
}

// askedFor counts the attempts for each silent neighbour.
type askedFor map[nextHop]int

// note records the present attempts, and returns the neighbours to warn about.
func (a askedFor) note(unknown []nextHop) (silent []nextHop) {
	maps.DeleteFunc(a, func(h nextHop, _ int) bool { return !slices.Contains(unknown, h) })
	for _, h := range unknown {
		if a[h]++; a[h] == warnAfter {
			silent = append(silent, h)
		}
	}
	return silent
}

// unknown returns the next hops without hardware address in VPP.
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

// askFor triggers resolution. VPP resolves a neighbour when it creates an adjacency, of which it
// has one per IP version of packets. The local SID has the adjacency of the neighbour's own
// version; a route of the other version creates another. Its destination is unused, and it is
// deleted at once.
func (v *SRv6) askFor(ctx context.Context, hops []nextHop) {
	for _, h := range hops {
		// An interface that is gone or down has no neighbour; it is tried again.
		_ = v.Ask(ctx, h.on, h.ip)
	}
}

// Ask makes VPP resolve a neighbour on an interface.
func (v *SRv6) Ask(ctx context.Context, on ownership.Index, neighbour netip.Addr) error {
	_, errs := session.CallAll[ip.IPRouteAddDelV2Reply](ctx, v.vpp, askModule, askingRoutes(nextHop{on, neighbour}))
	return session.FirstError(errs)
}

// askingRoutes returns the requests that add and delete the route.
func askingRoutes(h nextHop) []api.Message {
	r := ip.IPRouteV2{Prefix: convert.Prefix(dummyFor(h.ip)), NPaths: 1, Paths: []fib_types.FibPath{convert.PathVia(h.ip, uint32(h.on))}}
	return []api.Message{&ip.IPRouteAddDelV2{IsAdd: true, IsMultipath: true, Route: r}, &ip.IPRouteAddDelV2{IsMultipath: true, Route: r}}
}

// The dummy addresses of RFC 7600 and RFC 9780.
var (
	dummy4 = netip.MustParsePrefix("192.0.0.8/32")
	dummy6 = netip.MustParsePrefix("100:0:0:1::/128")
)

// dummyFor returns the destination of the temporary route for a neighbour.
func dummyFor(neighbour netip.Addr) netip.Prefix {
	if neighbour.Is6() {
		return dummy4
	}
	return dummy6
}

// IsQuestion reports whether a path in VRF 0 is a temporary route for resolving a neighbour. No
// value represents it.
func IsQuestion(dst netip.Prefix, gw netip.Addr) bool { return gw.IsValid() && dst == dummyFor(gw) }
