package podguard

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
)

// An interface without a guard that ranges restrict has tables that pass everything else:
//
//	frame ─> from a permitted source of the frontend? ─> to a frontend? dropped ─> everything else ─> ip4-input, ip6-input, arp-input
//
// Its sources are unknown, so ranges need a table per prefix length. A change replaces the tables.

type openPort struct {
	index ownership.Index
	*port
}

func openTables(frontends []vswitch.RestrictedFrontend) (list []*table) {
	for _, c := range []struct {
		chain                               chain
		protocol, source, destination, port span
		flags                               span
		etherType                           uint16
	}{
		{chainIP4, protocol4, source4, destination4, port4, tcpFlags4, etherTypeIP4},
		{chainIP6, next6, source6, destination6, port6, tcpFlags6, etherTypeIP6},
	} {
		permitted := map[int]*table{} // by prefix length
		connections := &table{chain: c.chain, spans: []span{c.protocol, c.destination, c.port, c.flags}}
		datagrams := &table{chain: c.chain, spans: []span{c.protocol, c.destination, c.port}}
		for _, f := range frontends {
			if f.Addr.Addr().Is4() != (c.chain == chainIP4) {
				continue
			}
			to := [][]byte{one(f.Protocol), ip(f.Addr.Addr()), two(f.Addr.Port())}
			for _, p := range f.Sources {
				spans, values := prefixAt(c.source, p)
				if permitted[p.Bits()] == nil {
					permitted[p.Bits()] = &table{chain: c.chain, spans: append([]span{c.protocol, c.destination, c.port}, spans...)}
				}
				permitted[p.Bits()].addNew(pass, slices.Concat(to, values)...)
			}
			if f.Protocol == protocolTCP {
				connections.addNew(restricted, append(to, one(syn))...)
			} else {
				datagrams.addNew(restricted, to...)
			}
		}
		for _, bits := range slices.Sorted(maps.Keys(permitted)) {
			list = append(list, permitted[bits])
		}
		for _, t := range []*table{connections, datagrams} {
			if len(t.entries) > 0 {
				list = append(list, t)
			}
		}
		rest := &table{chain: c.chain, spans: []span{etherType}}
		rest.add(pass, two(c.etherType))
		list = append(list, rest)
	}
	rest := &table{chain: chainOther, spans: []span{etherType}}
	rest.add(pass, two(etherTypeARP))
	return append(list, rest)
}

// prefixAt returns the spans and values of a prefix in an address.
func prefixAt(address span, p netip.Prefix) (spans []span, values [][]byte) {
	whole, rest := p.Bits()/8, p.Bits()%8
	value := ip(p.Addr())
	if whole > 0 {
		spans, values = append(spans, span{at: address.at, n: whole}), append(values, value[:whole])
	}
	if rest > 0 {
		spans, values = append(spans, span{at: address.at + whole, n: 1, bits: 0xff << (8 - rest)}), append(values, value[whole:whole+1])
	}
	return spans, values
}

// openable returns the index of an interface that exists, has no guard and is not bridged, and so
// can have such tables.
func (g *Guards) openable(ctx context.Context, iface string) (i ownership.Index, ok bool, err error) {
	if iface == "" || g.records[iface] != nil {
		return 0, false, nil
	}
	i, exists, err := g.ifs.Known(ctx, iface)
	if err != nil || !exists {
		return 0, false, err
	}
	roles, err := g.roles(ctx)
	return i, !roles[i].bridged, err
}

func (g *Guards) restrictOpen(ctx context.Context) error {
	i, ok, err := g.openable(ctx, g.ranges.iface)
	if err != nil || !ok {
		return err
	}
	tables := openTables(g.ranges.frontends)
	if g.open != nil && g.open.index == i && slices.EqualFunc(g.open.filter, tables, sameTable) {
		return nil
	}
	p, err := g.build(ctx, i, tables, false)
	if err != nil {
		return err
	}
	if err := g.bind(ctx, i, p); err != nil {
		g.learned = false // the binding is unknown until it is read
		return err
	}
	old := g.closed(i)
	g.open = &openPort{i, p}
	return g.discard(ctx, i, g.ranges.iface, old)
}

// close removes the tables of an interface without a guard.
func (g *Guards) close(ctx context.Context, iface string) error {
	i, ok, err := g.openable(ctx, iface)
	if err != nil || !ok {
		return err
	}
	return g.detach(ctx, i, iface)
}

// isOpen reports whether tables belong to an interface without a guard.
func isOpen(tables []*found) bool {
	rest := &table{spans: []span{etherType}}
	return slices.ContainsFunc(tables, func(f *found) bool { return sameMask(rest, f) && f.has(pass) })
}

// closeStrays removes tables without a record.
func (g *Guards) closeStrays(ctx context.Context) error {
	for _, i := range g.strays {
		if g.stale[i] == nil { // others have replaced them
			continue
		}
		if err := g.detach(ctx, i, g.ifs.Seen(i)); err != nil {
			return err
		}
	}
	g.strays = nil
	return nil
}

// closed forgets and returns the port of an interface without a guard; nil: none.
func (g *Guards) closed(i ownership.Index) *port {
	if g.open == nil || g.open.index != i {
		return nil
	}
	p := g.open.port
	g.open = nil
	return p
}

func sameTable(a, b *table) bool {
	return a.chain == b.chain && slices.Equal(a.spans, b.spans) &&
		maps.EqualFunc(entriesByMatch(a), entriesByMatch(b), func(a, b entry) bool { return a.verdict == b.verdict })
}

// recogniseOpen removes the tables of the interface without a guard from all, and returns them if
// they match the record.
func (g *Guards) recogniseOpen(ctx context.Context, roles map[ownership.Index]role, all map[ownership.Index][]*found) (*openPort, error) {
	if g.ranges == nil {
		return nil, nil
	}
	i, ok, err := g.openable(ctx, g.ranges.iface)
	if err != nil || !ok || !roles[i].guarded {
		return nil, err
	}
	tables := openTables(g.ranges.frontends)
	if len(all[i]) != len(tables) {
		return nil, nil
	}
	p := &port{filter: tables}
	left := slices.Clone(all[i])
	for _, t := range tables {
		n := slices.IndexFunc(left, func(f *found) bool { return g.same(i, t, false, f) })
		if n < 0 {
			return nil, nil
		}
		p.ids = append(p.ids, left[n].id)
		left = slices.Delete(left, n, n+1)
	}
	for _, f := range all[i] {
		if f.info.NextTableIndex != p.next(slices.Index(p.ids, f.id)) || f.info.MissNextIndex != nextDrop {
			return nil, nil
		}
	}
	delete(all, i)
	return &openPort{i, p}, nil
}
