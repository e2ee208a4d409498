package podguard

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"go.fd.io/govpp/binapi/classify"
)

// maxSilenced limits the silenced flows of an interface.
const maxSilenced = 64

// Silence replaces the flows whose packets are dropped on guarded interfaces, and returns their
// number. Each interface has at most maxSilenced; already silenced flows take precedence. It
// ignores flows of other interfaces.
func (g *Guards) Silence(ctx context.Context, flows []subsystem.Flow) (int, error) {
	n, err := g.silenceAll(ctx, flows)
	if err != nil {
		return 0, fmt.Errorf("silencing flows of pods: %w", err)
	}
	return n, nil
}

func (g *Guards) silenceAll(ctx context.Context, flows []subsystem.Flow) (total int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return 0, err
	}
	senders := map[netip.Addr]ownership.Index{}
	for iface, r := range g.records {
		i, exists, err := g.ifs.Known(ctx, iface)
		if err != nil {
			return 0, err
		}
		if exists && g.ports[i] != nil {
			for _, a := range r.addrs {
				senders[a] = i
			}
		}
	}
	wanted := map[ownership.Index][]subsystem.Flow{}
	for _, f := range flows {
		if i, ok := senders[f.From.Addr()]; ok {
			wanted[i] = append(wanted[i], f)
		}
	}
	for i, p := range g.ports {
		list := p.choose(wanted[i])
		total += len(list)
		if err := g.silence(ctx, i, p, list); err != nil {
			g.learned = false // the binding is unknown until it is read
			return 0, err
		}
	}
	return total, nil
}

// choose returns the flows of the port to silence, in order.
func (p *port) choose(flows []subsystem.Flow) []subsystem.Flow {
	silent := map[subsystem.Flow]bool{}
	for _, f := range p.silent() {
		silent[f] = true
	}
	return subsystem.FirstFlows(flows, maxSilenced, func(f subsystem.Flow) bool { return silent[f] })
}

func (p *port) silent() (flows []subsystem.Flow) {
	if p.silence == nil {
		return nil
	}
	for _, t := range p.silence.filter {
		for _, e := range t.entries {
			flows = append(flows, flowIn(t.chain, e.match))
		}
	}
	slices.SortFunc(flows, subsystem.Flow.Compare)
	return flows
}

func (g *Guards) silence(ctx context.Context, i ownership.Index, p *port, flows []subsystem.Flow) error {
	if slices.Equal(flows, p.silent()) && !p.silence.uncertain() {
		return nil
	}
	var old []uint32
	if p.silence != nil {
		old = p.silence.ids
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	p.silence = nil
	if len(flows) > 0 {
		s, err := g.build(ctx, i, silenceTables(flows), p.bridged)
		if err != nil {
			return err
		}
		g.chain(ctx, b, s, p.behindSilence)
		p.silence = s
	}
	b.Add(ctx, "binding tables of the classifier", p.binding(i), &classify.ClassifySetInterfaceL2TablesReply{})
	if err := b.Wait(ctx); err != nil {
		return err
	}
	return g.deleteTables(ctx, old...)
}

var flowSpans = map[chain][]span{chainIP4: {protocol4, flow4}, chainIP6: {next6, flow6}}

// silenceTables returns tables that drop flows, one per IP version.
func silenceTables(flows []subsystem.Flow) (tables []*table) {
	for _, c := range []chain{chainIP4, chainIP6} {
		t := &table{chain: c, spans: flowSpans[c]}
		for _, f := range flows {
			if f.From.Addr().Is4() == (c == chainIP4) {
				protocol := byte(protocolUDP)
				if f.TCP {
					protocol = protocolTCP
				}
				t.add(silenced, one(protocol), slices.Concat(ip(f.From.Addr()), ip(f.To.Addr()), two(f.From.Port()), two(f.To.Port())))
			}
		}
		if len(t.entries) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func flowIn(c chain, match []byte) subsystem.Flow {
	of, s := flowSpans[c][0], flowSpans[c][1]
	part := match[s.at : s.at+s.n]
	size := (len(part) - 4) / 2
	end := func(addr, port []byte) netip.AddrPort {
		a, _ := netip.AddrFromSlice(addr)
		return netip.AddrPortFrom(a, uint16(port[0])<<8|uint16(port[1]))
	}
	ports := part[2*size:]
	return subsystem.Flow{From: end(part[:size], ports[:2]), To: end(part[size:2*size], ports[2:]), TCP: match[of.at] == protocolTCP}
}

// split separates the tables of a guard from the tables before them.
func split(tables []*found) (others, ranges, quiet []*found) {
	for _, f := range tables {
		switch {
		case f.has(silenced):
			quiet = append(quiet, f)
		case f.has(restricted):
			ranges = append(ranges, f)
		default:
			others = append(others, f)
		}
	}
	return others, ranges, quiet
}

func (f *found) has(v verdict) bool {
	for _, e := range f.entries {
		if _, now, _ := marked(e.OpaqueIndex); now != v {
			return false
		}
	}
	return true
}

// recogniseSilence returns a port's silencing tables. Other tables with the port's mark, left by an
// interrupted agent or a failed request, are among its ids, because VPP may use any of them.
func (p *port) recogniseSilence(tables []*found) *port {
	if len(tables) == 0 {
		return nil
	}
	silence := &port{bridged: p.bridged}
	var others []uint32
	for _, f := range tables {
		if t := p.silenceTable(f); t != nil && silence.first(t.chain) == none {
			silence.filter, silence.ids = append(silence.filter, t), append(silence.ids, f.id)
		} else {
			others = append(others, f.id)
		}
	}
	silence.ids = append(silence.ids, others...)
	return silence
}

// silenceTable returns a silencing table of the port; nil: it is none.
func (p *port) silenceTable(f *found) *table {
	for _, c := range []chain{chainIP4, chainIP6} {
		t := &table{chain: c, spans: flowSpans[c]}
		if !sameMask(t, f) || f.info.NextTableIndex != p.behindSilence(c) {
			continue
		}
		for match := range f.entries {
			t.entries = append(t.entries, entry{append(make([]byte, t.skip()*vector), match...), silenced})
		}
		return t
	}
	return nil
}

// uncertain reports whether VPP may use unknown tables, so that the tables must be recreated.
func (p *port) uncertain() bool { return p != nil && len(p.ids) > len(p.filter) }
