package nat

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// judgedFlows holds the mappings to check connections against. A connection, other than TCP without
// setReset, ends unless a new one could be the same. This is used if backends depend on the client
// or clients are restricted: a change of externalTrafficPolicy removes remote endpoints for
// external clients only. nil: no connection ends.
type judgedFlows map[conntrack.Destination]*serviceFlows

type serviceFlows struct {
	backends   map[natScope][]netip.AddrPort
	restricted bool
	allowed    []addressRange
}

type addressRange struct{ first, last netip.Addr }

func (r addressRange) contains(a netip.Addr) bool {
	return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
}

// compare adds mappings that changed for some clients.
func (j judgedFlows) compare(f *natFamily, before, after []nft.Element) {
	if !dependOnClient(before) && !dependOnClient(after) {
		return
	}
	reset := resetsIn(before, after)
	was, is := f.judged(before, reset), f.judged(after, reset)
	for to, flows := range is {
		if was[to] != nil && !flows.equal(was[to]) {
			j[to] = flows
		}
	}
	for to := range was {
		if is[to] == nil {
			j[to] = nil
		}
	}
}

func dependOnClient(list []nft.Element) bool {
	return slices.ContainsFunc(list, func(e nft.Element) bool {
		switch e.Set {
		case setRestricted, setBalancedIn, setBalancedOut, setBalancedOwn:
			return true
		}
		return false
	})
}

// judged returns the connections that elements allow, for mappings with backends.
func (f *natFamily) judged(list []nft.Element, reset map[string]bool) judgedFlows {
	all := judgedFlows{}
	of := map[string]*serviceFlows{}
	for _, e := range list {
		to, backend, ok := f.flowOf(e, reset)
		if !ok {
			continue
		}
		flows := all[to]
		if flows == nil {
			flows = &serviceFlows{backends: map[natScope][]netip.AddrPort{}}
			all[to] = flows
			of[e.Key[:min(len(e.Key), f.serviceLength())]] = flows
		}
		class, _ := classNamed(e.Set)
		if !slices.Contains(flows.backends[class.scope], backend) {
			flows.backends[class.scope] = append(flows.backends[class.scope], backend)
		}
	}
	for _, e := range list {
		flows := of[e.Key[:min(len(e.Key), f.serviceLength())]]
		switch {
		case flows == nil:
		case e.Set == setRestricted:
			flows.restricted = true
		case e.Set == setAllowed:
			first, _ := netip.AddrFromSlice([]byte(e.Key[f.serviceLength():]))
			last, _ := netip.AddrFromSlice([]byte(e.End[f.serviceLength():]))
			flows.allowed = append(flows.allowed, addressRange{first, last})
		}
	}
	return all
}

func (s *serviceFlows) equal(o *serviceFlows) bool {
	return s.restricted == o.restricted && slices.Equal(s.allowed, o.allowed) &&
		maps.EqualFunc(s.backends, o.backends, func(a, b []netip.AddrPort) bool { return slices.Equal(a, b) })
}

// lookups holds the scopes in which the rules look up a client's backends, in order (rules.go).
var lookups = map[natScope][]natScope{
	scopeOwn: {scopeOwn, scopeInside, "", scopeOutside}, scopeInside: {"", scopeInside, scopeOutside}, scopeOutside: {"", scopeOutside},
}

func (s *serviceFlows) allow(client netip.Addr, scope natScope, backend netip.AddrPort) bool {
	if s.restricted && !slices.ContainsFunc(s.allowed, func(r addressRange) bool { return r.contains(client) }) {
		return false
	}
	for _, scope := range lookups[scope] {
		if backends := s.backends[scope]; len(backends) > 0 {
			return slices.Contains(backends, backend)
		}
	}
	return false
}

// judge matches connections that a mapping does not allow.
type judge struct {
	flows  judgedFlows
	inside []netip.Prefix
	own    map[netip.Addr]bool
}

// MatchConntrackFlow reports whether to delete a connection.
func (j judge) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	addr := func(ip []byte) netip.Addr { a, _ := netip.AddrFromSlice(ip); return a.Unmap() }
	to, client := addr(c.Forward.DstIP), addr(c.Forward.SrcIP)
	backend := netip.AddrPortFrom(addr(c.Reverse.SrcIP), c.Reverse.SrcPort)
	keys := []conntrack.Destination{{Addr: to, Protocol: c.Forward.Protocol, Port: c.Forward.DstPort}}
	if c.Forward.Protocol != unix.IPPROTO_TCP {
		keys = append(keys, conntrack.Destination{Addr: to, Protocol: c.Forward.Protocol}, conntrack.Destination{Addr: to})
	}
	for _, key := range keys {
		if flows := j.flows[key]; flows != nil {
			if key.Port == 0 {
				backend = netip.AddrPortFrom(backend.Addr(), 0)
			}
			return !flows.allow(client, j.scope(client), backend)
		}
	}
	return false
}

func (j judge) scope(client netip.Addr) natScope {
	switch {
	case j.own[client]:
		return scopeOwn
	case slices.ContainsFunc(j.inside, func(p netip.Prefix) bool { return p.Contains(client) }):
		return scopeInside
	}
	return scopeOutside
}

func (v *Driver) judgeFlows(f *natFamily, flows judgedFlows) error {
	flows = maps.Clone(flows)
	maps.DeleteFunc(flows, func(_ conntrack.Destination, s *serviceFlows) bool { return s == nil })
	if len(flows) == 0 {
		return nil
	}
	s, err := v.nat.readNAT(f)
	if err != nil {
		return fmt.Errorf("reading which clients are inside: %w", err)
	}
	addresses, err := v.Net.Addresses(0)
	if err != nil {
		return fmt.Errorf("reading the addresses of the node: %w", err)
	}
	j := judge{flows, s.network.inside, map[netip.Addr]bool{}}
	for _, a := range addresses {
		j.own[a.Prefix.Addr()] = true
	}
	if err := conntrack.ForgetMatching(v.NS.Handle, j, f == nat6); err != nil {
		return fmt.Errorf("ending connections of clients that mappings do not allow any more: %w", err)
	}
	return nil
}
