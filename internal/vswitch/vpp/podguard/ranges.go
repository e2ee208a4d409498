package podguard

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/binapi/classify"
)

// Ranges implements vswitch.Values for SourceRanges. Tables before the guard's tables drop packets
// that its addresses may not send:
//
//	frame ─> silenced? ─> to a forbidden frontend? ─> tables of the guard
//
// The ranges are compared with the few addresses of guards, not with packets, so permitted
// frontends need no entry. Interfaces without a forbidden frontend have no such tables.
type Ranges struct{ *Guards }

// rangeTables returns tables that drop packets from the addresses to forbidden frontends. For TCP
// they drop only the first packet of a connection, so existing connections continue.
func rangeTables(frontends []vswitch.RestrictedFrontend, addrs []netip.Addr) (tables []*table) {
	for _, t := range emptyRangeTables() {
		for _, a := range addrs {
			if a.Is4() != (t.chain == chainIP4) {
				continue
			}
			t.room += models.MaxRestrictedFrontends
			for _, f := range frontends {
				if tcp := f.Protocol == protocolTCP; tcp == t.isOfTCP() && f.Addr.Addr().Is4() == a.Is4() && !f.Allows(a) {
					t.addNew(restricted, append([][]byte{one(f.Protocol), ip(a), ip(f.Addr.Addr()), two(f.Addr.Port())}, flagsOf(tcp)...)...)
				}
			}
		}
		if len(t.entries) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func flagsOf(tcp bool) [][]byte {
	if tcp {
		return [][]byte{one(syn)}
	}
	return nil
}

// emptyRangeTables returns all tables that ranges can need, in order.
func emptyRangeTables() (tables []*table) {
	for _, spans := range [][]span{{protocol4, source4, destination4, port4, tcpFlags4}, {protocol4, source4, destination4, port4}} {
		tables = append(tables, &table{chain: chainIP4, spans: spans})
	}
	for _, spans := range [][]span{{next6, source6, destination6, port6, tcpFlags6}, {next6, source6, destination6, port6}} {
		tables = append(tables, &table{chain: chainIP6, spans: spans})
	}
	return tables
}

func (t *table) isOfTCP() bool {
	return slices.Contains(t.spans, tcpFlags4) || slices.Contains(t.spans, tcpFlags6)
}

// Create creates or changes the value. An interrupted agent repairs tables from the record: guards
// get their tables before the record is written, and the interface without a guard gets its own
// afterwards.
func (r Ranges) Create(ctx context.Context, v *guard.SourceRanges) error {
	return session.Wrap("restricting sources", r.create(ctx, v))
}

func (r Ranges) create(ctx context.Context, v *guard.SourceRanges) error {
	wanted := &rangeRecord{id: none, frontends: vswitch.RestrictedFrontends(v), iface: v.GetInterface()}
	if n := len(wanted.frontends); n > models.MaxRestrictedFrontends {
		return vswitch.Unsupported("frontends: %d of them: restrict at most %d", n, models.MaxRestrictedFrontends)
	}
	if n := len(wanted.rules()); n > models.MaxRestrictingRules {
		return vswitch.Unsupported("sources: %d of all frontends together, with the frontends: use at most %d", n, models.MaxRestrictingRules)
	}
	if n := ownership.MaxTag - len(rangesTag); len(wanted.iface) > n {
		return vswitch.Unsupported("interface: %q is longer than %d bytes: give it a shorter name", wanted.iface, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.learn(ctx); err != nil {
		return err
	}
	if r.ranges != nil {
		wanted.id = r.ranges.id
	}
	err := r.restrictGuards(ctx, wanted.frontends)
	if err == nil && r.ranges != nil && r.ranges.iface != wanted.iface {
		err = r.close(ctx, r.ranges.iface)
	}
	if err == nil {
		err = r.putRanges(ctx, wanted)
	}
	if err == nil {
		r.ranges = wanted
		err = r.restrictOpen(ctx)
	}
	if err == nil {
		err = r.closeStrays(ctx)
	}
	r.learned = err == nil // otherwise the binding is unknown until it is read
	return err
}

// Delete removes the tables, and the record last.
func (r Ranges) Delete(ctx context.Context, _ *guard.SourceRanges) error {
	return session.Wrap("restricting sources no longer", r.delete(ctx))
}

func (r Ranges) delete(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.learn(ctx); err != nil {
		return err
	}
	err := r.restrictGuards(ctx, nil)
	if err == nil && r.ranges != nil {
		if err = r.close(ctx, r.ranges.iface); err == nil {
			err = r.eraseList(ctx, r.ranges.id)
		}
	}
	if err == nil {
		err = r.closeStrays(ctx)
	}
	if r.learned = err == nil; err == nil {
		r.ranges = nil
	}
	return err
}

// List returns the value. It restricts nothing if an interface has other tables.
func (r Ranges) List(ctx context.Context, expected []*guard.SourceRanges) ([]*guard.SourceRanges, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(expected) == 0 && r.learned && !r.restricts() {
		return nil, nil
	}
	if err := r.read(ctx); err != nil {
		r.learned = false
		return nil, fmt.Errorf("read the restricted sources: %w", err)
	}
	if !r.restricts() {
		return nil, nil
	}
	wrong, err := r.wrongRanges(ctx)
	if err != nil {
		return nil, err
	}
	if r.ranges == nil || wrong {
		return []*guard.SourceRanges{{}}, nil
	}
	return []*guard.SourceRanges{vswitch.SourceRangesOf(r.ranges.frontends, r.ranges.iface)}, nil
}

func (g *Guards) restricts() bool {
	for _, p := range g.ports {
		if p.ranges != nil {
			return true
		}
	}
	return g.ranges != nil || g.open != nil || len(g.strays) > 0
}

// wrongRanges reports whether an interface's tables differ from the record.
func (g *Guards) wrongRanges(ctx context.Context) (wrong bool, err error) {
	err = g.eachPort(ctx, func(_ string, _ ownership.Index, p *port, r *record) error {
		wrong = wrong || !p.hasRanges(g.rangesOf(r))
		return nil
	})
	if err == nil && g.ranges != nil && g.open == nil {
		_, missing, err2 := g.openable(ctx, g.ranges.iface)
		wrong, err = wrong || missing, err2
	}
	return wrong, err
}

// rangesOf returns the tables of a guard for the present record.
func (g *Guards) rangesOf(r *record) []*table {
	if g.ranges == nil {
		return nil
	}
	return rangeTables(g.ranges.frontends, r.all())
}

func (g *Guards) eachPort(ctx context.Context, do func(string, ownership.Index, *port, *record) error) error {
	for iface, r := range g.records {
		i, exists, err := g.ifs.Known(ctx, iface)
		if err != nil {
			return err
		}
		if p := g.ports[i]; exists && p != nil {
			if err := do(iface, i, p, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// restrictGuards sets the range tables of guarded interfaces. It binds them again, because an
// interrupted agent may have created but not bound them.
func (g *Guards) restrictGuards(ctx context.Context, frontends []vswitch.RestrictedFrontend) error {
	return g.eachPort(ctx, func(iface string, i ownership.Index, p *port, r *record) error {
		return g.restrict(ctx, iface, i, p, rangeTables(frontends, r.all()))
	})
}

// restrict sets the range tables of a port. If the tables stay the same, only entries change. VPP
// loses the counters of deleted entries.
func (g *Guards) restrict(ctx context.Context, iface string, i ownership.Index, p *port, wanted []*table) error {
	if p.ranges == nil && len(wanted) == 0 {
		return nil
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	var old *port
	if p.ranges.isLike(wanted) {
		for n, t := range wanted {
			plan := delta.Between(entriesByMatch(p.ranges.filter[n]), entriesByMatch(t), func(a, b entry) bool { return true })
			plan.Sort(delta.Order[string]{}) // a table without entries would have no mark
			for _, step := range plan {
				b.Add(ctx, "changing a table of ranges", g.request(i, p.ranges, n, entry{[]byte(step.Key), restricted}, step.Kind == delta.Add), &classify.ClassifyAddDelSessionReply{})
			}
			p.ranges.filter[n] = t
		}
	} else {
		old = p.ranges
		if p.ranges, err = g.buildRanges(ctx, i, p, wanted); err != nil {
			return err
		}
		if p.silence != nil {
			g.chain(ctx, b, p.silence, p.behindSilence)
		}
	}
	b.Add(ctx, "binding tables of the classifier", p.binding(i), &classify.ClassifySetInterfaceL2TablesReply{})
	if err := b.Wait(ctx); err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	g.keepCounts(ctx, iface, old.counting())
	return g.deleteTables(ctx, old.ids...)
}

// buildRanges creates tables that lead to the port's tables; nil: none.
func (g *Guards) buildRanges(ctx context.Context, i ownership.Index, p *port, wanted []*table) (*port, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	made, err := g.build(ctx, i, wanted, p.bridged)
	if err != nil {
		return nil, err
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	b := session.NewBatch(l)
	g.chain(ctx, b, made, p.first)
	return made, b.Wait(ctx)
}

// chain links the last table of each chain.
func (g *Guards) chain(ctx context.Context, b *session.Batch, p *port, to func(chain) uint32) {
	for n, t := range p.filter {
		if p.next(n) == none {
			b.Add(ctx, "chaining tables of the classifier", link(t, p.ids[n], to(t.chain)), &classify.ClassifyAddDelTableReply{})
		}
	}
}

// isLike reports whether a port has tables of the same form, regardless of entries.
func (p *port) isLike(tables []*table) bool {
	return p != nil && !p.uncertain() && slices.EqualFunc(p.filter, tables, func(a, b *table) bool { return a.chain == b.chain && slices.Equal(a.spans, b.spans) })
}

// hasRanges reports whether a port has exactly these tables.
func (p *port) hasRanges(wanted []*table) bool {
	if p.ranges == nil {
		return len(wanted) == 0
	}
	return p.ranges.isLike(wanted) && slices.EqualFunc(p.ranges.filter, wanted, func(a, b *table) bool {
		return maps.EqualFunc(entriesByMatch(a), entriesByMatch(b), func(a, b entry) bool { return true })
	})
}

// recogniseRanges returns a port's range tables. If some lead elsewhere, or several have the same
// form, it is uncertain which ones VPP uses.
func (p *port) recogniseRanges(tables []*found) *port {
	if len(tables) == 0 {
		return nil
	}
	ranges := &port{bridged: p.bridged}
	var infos []*found
	for _, t := range emptyRangeTables() {
		if n := slices.IndexFunc(tables, func(f *found) bool { return sameMask(t, f) && f.denies() }); n >= 0 {
			for match := range tables[n].entries {
				t.entries = append(t.entries, entry{append(make([]byte, t.skip()*vector), match...), restricted})
			}
			ranges.filter, ranges.ids, infos = append(ranges.filter, t), append(ranges.ids, tables[n].id), append(infos, tables[n])
		}
	}
	certain := len(infos) == len(tables)
	for n, f := range infos {
		next := ranges.next(n)
		if next == none {
			next = p.first(ranges.filter[n].chain)
		}
		certain = certain && f.info.NextTableIndex == next
	}
	if !certain {
		*ranges = port{bridged: p.bridged}
		for _, f := range tables {
			ranges.ids = append(ranges.ids, f.id)
		}
	}
	return ranges
}

func (f *found) denies() bool {
	for _, e := range f.entries {
		if e.HitNextIndex != nextDrop {
			return false
		}
	}
	return true
}
