package podguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/l2"
	"go.fd.io/govpp/binapi/policer"
	"go.fd.io/govpp/binapi/sr"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/binapi/vxlan"
)

var module = session.NewModule("", "classifier",
	&classify.ClassifyAddDelTable{}, &classify.ClassifyAddDelTableReply{}, &classify.ClassifyAddDelSession{}, &classify.ClassifyAddDelSessionReply{},
	&classify.ClassifySetInterfaceL2Tables{}, &classify.ClassifySetInterfaceL2TablesReply{},
	&classify.ClassifyTableIds{}, &classify.ClassifyTableIdsReply{}, &classify.ClassifyTableInfo{}, &classify.ClassifyTableInfoReply{},
	&classify.ClassifySessionDump{}, &classify.ClassifySessionDetails{},
	&vlib.AddNodeNext{}, &vlib.AddNodeNextReply{},
	&l2.BridgeDomainAddDelV2{}, &l2.BridgeDomainAddDelV2Reply{}, &l2.BridgeDomainDump{}, &l2.BridgeDomainDetails{},
	&l2.SwInterfaceSetL2Bridge{}, &l2.SwInterfaceSetL2BridgeReply{}, &l2.L2XconnectDump{}, &l2.L2XconnectDetails{},
	&sr.SrLocalsidsDump{}, &sr.SrLocalsidsDetails{},
	&policer.PolicerAdd{}, &policer.PolicerAddReply{}, &policer.PolicerDumpV2{}, &policer.PolicerDetails{},
	&classify.PolicerClassifySetInterface{}, &classify.PolicerClassifySetInterfaceReply{},
)

var tunnelModule = session.NewModule("vxlan_plugin.so", "VXLAN tunnels", &vxlan.VxlanTunnelV2Dump{}, &vxlan.VxlanTunnelV2Details{})

const (
	none = ^uint32(0)

	// guardedBridge is the bridge domain of guarded interfaces: VPP's last number. It has no tag,
	// so that it does not count as a northbound one.
	guardedBridge = 1<<24 - 2

	classifyNode = "l2-input-classify"
	arpNode      = "arp-input"
	// Fixed next nodes of l2-input-classify.
	nextDrop, nextIP4, nextIP6 = 0, 2, 3
	// nextFeature continues with the next layer-2 feature.
	nextFeature = 1<<16 - 1
	// ethernetHeader is the length to skip.
	ethernetHeader = 14
)

// sizeOf returns the memory to reserve for a table, and its number of buckets. VPP aborts when a
// table needs more memory; unused memory costs nothing.
func sizeOf(t *table) (memory, buckets uint32) {
	entries := len(t.entries) + t.room
	for buckets = 8; int(buckets) < entries; buckets *= 2 {
	}
	return uint32(256<<10 + 2<<10*entries), min(buckets, 256)
}

type port struct {
	filter  []*table
	ids     []uint32
	bridged bool
	ranges  *port // tables before filter; nil: none
	silence *port // tables before these
}

type role struct {
	guarded bool // in the bridge domain of guarded interfaces
	bridged bool // in another one, or cross-connected
}

func (p *port) head(c chain) uint32 {
	if p.silence != nil {
		if id := p.silence.first(c); id != none {
			return id
		}
	}
	return p.behindSilence(c)
}

// behindSilence returns the table after the silencing ones.
func (p *port) behindSilence(c chain) uint32 {
	if p.ranges != nil {
		if id := p.ranges.first(c); id != none {
			return id
		}
	}
	return p.first(c)
}

func (p *port) first(c chain) uint32 {
	for i, t := range p.filter {
		if t.chain == c {
			return p.ids[i]
		}
	}
	return none
}

func (p *port) next(i int) uint32 {
	for j := i + 1; j < len(p.filter); j++ {
		if p.filter[j].chain == p.filter[i].chain {
			return p.ids[j]
		}
	}
	return none
}

// nextOf returns the next node for an entry's verdict. Frames of bridged interfaces stay on layer 2.
func (g *Guards) nextOf(t *table, v verdict, bridged bool) (next uint32, advance int32) {
	switch {
	case t.policed:
		return g.policers[v == pass], 0
	case v != pass:
		return nextDrop, 0
	case bridged:
		return nextFeature, 0
	}
	return map[chain]uint32{chainIP4: nextIP4, chainIP6: nextIP6, chainOther: g.arpNext}[t.chain], ethernetHeader
}

func (g *Guards) request(i ownership.Index, p *port, n int, e entry, add bool) *classify.ClassifyAddDelSession {
	next, advance := g.nextOf(p.filter[n], e.verdict, p.bridged)
	return &classify.ClassifyAddDelSession{
		IsAdd: add, TableIndex: p.ids[n], HitNextIndex: next, OpaqueIndex: mark(i, e.verdict), Advance: advance, Match: e.match,
	}
}

// learnNodes reads where entries lead, and adds a next node of the classifier.
func (g *Guards) learnNodes(ctx context.Context) error {
	if err := g.learnPolicers(ctx); err != nil || g.arpNext != 0 {
		return err
	}
	var reply vlib.AddNodeNextReply
	if err := g.vpp.Call(ctx, module, &vlib.AddNodeNext{NodeName: classifyNode, NextName: arpNode}, &reply); err != nil {
		return fmt.Errorf("leading from node %s to %s: %w", classifyNode, arpNode, err)
	}
	g.arpNext = reply.NextIndex
	return nil
}

// build creates the tables of an interface, without binding them.
func (g *Guards) build(ctx context.Context, i ownership.Index, filter []*table, bridged bool) (*port, error) {
	if err := g.learnNodes(ctx); err != nil {
		return nil, err
	}
	p := &port{filter: filter, bridged: bridged}
	var reqs []api.Message
	for _, t := range filter {
		mask := t.mask()
		memory, buckets := sizeOf(t)
		reqs = append(reqs, &classify.ClassifyAddDelTable{
			IsAdd: true, TableIndex: none, Nbuckets: buckets, MemorySize: memory, SkipNVectors: uint32(t.skip()),
			MatchNVectors: uint32(len(mask) / vector), NextTableIndex: none, MissNextIndex: t.missNext(), Mask: mask,
		})
	}
	replies, errs := session.CallAll[classify.ClassifyAddDelTableReply](ctx, g.vpp, module, reqs)
	for n, r := range replies {
		if errs[n] == nil {
			p.ids = append(p.ids, r.NewTableIndex)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(fmt.Errorf("making tables of the classifier: %w", err), g.deleteTables(ctx, p.ids...))
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	b := session.NewBatch(l)
	for n, t := range filter {
		if next := p.next(n); next != none {
			b.Add(ctx, "chaining tables of the classifier", link(t, p.ids[n], next), &classify.ClassifyAddDelTableReply{})
		}
		for _, e := range t.entries {
			b.Add(ctx, "filling tables of the classifier", g.request(i, p, n, e, true), &classify.ClassifyAddDelSessionReply{})
		}
	}
	if err := b.Wait(ctx); err != nil {
		return nil, errors.Join(err, g.deleteTables(ctx, p.ids...))
	}
	return p, nil
}

// missNext returns the next node of packets that match no entry.
func (t *table) missNext() uint32 {
	if t.policed {
		return none
	}
	return nextDrop
}

// link changes only the next table of an existing table.
func link(t *table, id, next uint32) *classify.ClassifyAddDelTable {
	mask := t.mask()
	return &classify.ClassifyAddDelTable{
		IsAdd: true, TableIndex: id, Nbuckets: 1, MemorySize: 1, SkipNVectors: uint32(t.skip()),
		MatchNVectors: uint32(len(mask) / vector), NextTableIndex: next, MissNextIndex: t.missNext(), Mask: mask,
	}
}

func (g *Guards) deleteTables(ctx context.Context, ids ...uint32) error {
	var reqs []api.Message
	for _, id := range ids {
		reqs = append(reqs, &classify.ClassifyAddDelTable{TableIndex: id, MatchNVectors: 1, NextTableIndex: none, Mask: make([]byte, vector)})
	}
	_, errs := session.CallAll[classify.ClassifyAddDelTableReply](ctx, g.vpp, module, reqs)
	errs = slices.DeleteFunc(errs, func(err error) bool { return vppapi.Refused(err, api.NO_SUCH_TABLE) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("deleting tables of the classifier: %w", err)
	}
	return nil
}

func (p *port) binding(i ownership.Index) *classify.ClassifySetInterfaceL2Tables {
	return &classify.ClassifySetInterfaceL2Tables{
		SwIfIndex: i, IP4TableIndex: p.head(chainIP4), IP6TableIndex: p.head(chainIP6), OtherTableIndex: p.head(chainOther), IsInput: true,
	}
}

// bind makes an interface receive only packets that the tables permit. It replaces a former binding
// atomically.
func (g *Guards) bind(ctx context.Context, i ownership.Index, p *port) error {
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	b.Add(ctx, "binding tables of the classifier", p.binding(i), &classify.ClassifySetInterfaceL2TablesReply{})
	if !p.bridged { // Without learning, flooding and forwarding.
		b.Add(ctx, "making the bridge domain of guarded interfaces", &l2.BridgeDomainAddDelV2{IsAdd: true, BdID: guardedBridge},
			&l2.BridgeDomainAddDelV2Reply{}, api.BD_ALREADY_EXISTS)
		b.Add(ctx, "bridging", &l2.SwInterfaceSetL2Bridge{RxSwIfIndex: i, BdID: guardedBridge, Enable: true}, &l2.SwInterfaceSetL2BridgeReply{})
	}
	return b.Wait(ctx)
}

// unbind reverses bind. The interface may be gone.
func (g *Guards) unbind(ctx context.Context, i ownership.Index) error {
	roles, err := g.roles(ctx)
	if err != nil {
		return err
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	if roles[i].guarded {
		b.Add(ctx, "leaving the bridge domain of guarded interfaces", &l2.SwInterfaceSetL2Bridge{RxSwIfIndex: i, BdID: guardedBridge},
			&l2.SwInterfaceSetL2BridgeReply{}, api.INVALID_SW_IF_INDEX)
	}
	b.Add(ctx, "unbinding tables of the classifier", &classify.ClassifySetInterfaceL2Tables{
		SwIfIndex: i, IP4TableIndex: none, IP6TableIndex: none, OtherTableIndex: none, IsInput: true,
	}, &classify.ClassifySetInterfaceL2TablesReply{}, api.INVALID_SW_IF_INDEX)
	// Deleting the last port deletes it.
	b.Add(ctx, "deleting the bridge domain of guarded interfaces", &l2.BridgeDomainAddDelV2{BdID: guardedBridge},
		&l2.BridgeDomainAddDelV2Reply{}, api.BD_IN_USE, api.NO_SUCH_ENTRY)
	return b.Wait(ctx)
}

func (g *Guards) roles(ctx context.Context) (map[ownership.Index]role, error) {
	connects := session.StartDump[l2.L2XconnectDetails](ctx, g.vpp, module, &l2.L2XconnectDump{})
	bridges, err := session.Dump[l2.BridgeDomainDetails](ctx, g.vpp, module, &l2.BridgeDomainDump{BdID: none, SwIfIndex: ownership.NoIndex})
	pairs, err2 := connects.Wait(ctx)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("reading bridge domains and cross-connects: %w", err)
	}
	roles := map[ownership.Index]role{}
	for _, d := range bridges {
		for _, p := range d.SwIfDetails {
			roles[p.SwIfIndex] = role{guarded: d.BdID == guardedBridge, bridged: d.BdID != guardedBridge}
		}
	}
	for _, p := range pairs {
		roles[p.RxSwIfIndex] = role{bridged: true}
	}
	return roles, nil
}

type found struct {
	id      uint32
	info    *classify.ClassifyTableInfoReply
	entries map[string]classify.ClassifySessionDetails // by match
}

// findTables reads all tables with our marks, by interface.
func (g *Guards) findTables(ctx context.Context) (map[ownership.Index][]*found, error) {
	var all classify.ClassifyTableIdsReply
	if err := g.vpp.Call(ctx, module, &classify.ClassifyTableIds{}, &all); err != nil {
		return nil, fmt.Errorf("listing tables of the classifier: %w", err)
	}
	var reqs []api.Message
	var dumps []*session.Pending[classify.ClassifySessionDetails, *classify.ClassifySessionDetails]
	for _, id := range all.Ids {
		reqs = append(reqs, &classify.ClassifyTableInfo{TableID: id})
		dumps = append(dumps, session.StartDump[classify.ClassifySessionDetails](ctx, g.vpp, module, &classify.ClassifySessionDump{TableID: id}))
	}
	infos, errs := session.CallAll[classify.ClassifyTableInfoReply](ctx, g.vpp, module, reqs)
	tables := map[ownership.Index][]*found{}
	for n, id := range all.Ids {
		entries, err := dumps[n].Wait(ctx)
		if err == nil {
			err = errs[n]
		}
		switch {
		case vppapi.Refused(err, api.CLASSIFY_TABLE_NOT_FOUND, api.NO_SUCH_TABLE):
			continue // foreign, and deleted meanwhile
		case err != nil:
			return nil, fmt.Errorf("reading table %d of the classifier: %w", id, err)
		case len(entries) == 0:
			continue
		}
		i, _, ours := marked(entries[0].OpaqueIndex)
		if !ours {
			continue
		}
		f := &found{id: id, info: infos[n], entries: map[string]classify.ClassifySessionDetails{}}
		for _, e := range entries {
			f.entries[string(e.Match)] = *e
		}
		tables[i] = append(tables[i], f)
	}
	return tables, nil
}

// recognise returns an interface's tables as a port if they are exactly the wanted ones, except for
// the peers, which are returned as in VPP; nil: they differ.
func (g *Guards) recognise(i ownership.Index, wanted []*table, bridged bool, tables []*found) *port {
	tables, ranges, quiet := split(tables)
	if len(tables) != len(wanted) {
		return nil
	}
	p := &port{filter: slices.Clone(wanted), bridged: bridged}
	for at, t := range wanted {
		n := slices.IndexFunc(tables, func(f *found) bool { return g.same(i, t, bridged, f) && !slices.Contains(p.ids, f.id) })
		if n < 0 && (at == peerTable || at == segmentTable) {
			if n = slices.IndexFunc(tables, func(f *found) bool { return f.like(t) != nil }); n >= 0 {
				p.filter[at] = tables[n].like(t)
			}
		}
		if n < 0 {
			return nil
		}
		p.ids = append(p.ids, tables[n].id)
	}
	for n, id := range p.ids {
		f := tables[slices.IndexFunc(tables, func(f *found) bool { return f.id == id })]
		if f.info.NextTableIndex != p.next(n) || f.info.MissNextIndex != nextDrop {
			return nil
		}
	}
	p.ranges = p.recogniseRanges(ranges)
	p.silence = p.recogniseSilence(quiet)
	return p
}

// like returns a table of the same form with entries of the same verdict; nil: it has another form.
func (f *found) like(t *table) *table {
	v := t.entries[0].verdict
	if !sameMask(t, f) || !f.has(v) {
		return nil
	}
	now := &table{chain: t.chain, spans: t.spans, room: t.room}
	for match := range f.entries {
		now.entries = append(now.entries, entry{append(make([]byte, t.skip()*vector), match...), v})
	}
	return now
}

// hasEnds reports whether the tables of a port match the tunnels and segments.
func (p *port) hasEnds(e ends) bool {
	for at, t := range e.tables() {
		if !maps.EqualFunc(entriesByMatch(p.filter[at]), entriesByMatch(t), func(a, b entry) bool { return true }) {
			return false
		}
	}
	return true
}

func sameMask(t *table, f *found) bool {
	return int(f.info.SkipNVectors) == t.skip() && bytes.Equal(f.info.Mask, t.mask())
}

func (g *Guards) same(i ownership.Index, t *table, bridged bool, f *found) bool {
	if !sameMask(t, f) || len(f.entries) != len(t.entries) {
		return false
	}
	for _, e := range t.entries {
		have, ok := f.entries[string(e.match[t.skip()*vector:])]
		next, advance := g.nextOf(t, e.verdict, bridged)
		if !ok || have.HitNextIndex != next || have.Advance != advance || have.OpaqueIndex != mark(i, e.verdict) {
			return false
		}
	}
	return true
}

// ends reads the tunnels and segments. IPv6 sources are not translated, so no peer accepts VXLAN of
// pods over IPv6.
func (g *Guards) ends(ctx context.Context) (ends, error) {
	tunnels := session.StartDump[vxlan.VxlanTunnelV2Details](ctx, g.vpp, tunnelModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: ownership.NoIndex})
	sids, err := session.Dump[sr.SrLocalsidsDetails](ctx, g.vpp, module, &sr.SrLocalsidsDump{})
	all, err2 := tunnels.Wait(ctx)
	if err := errors.Join(err, session.IgnoreUnsupported("reading VXLAN tunnels", err2)); err != nil {
		return ends{}, err
	}
	peers, segments := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, t := range all {
		if addr := convert.Addr(t.DstAddress); addr.Is4() {
			peers[addr] = true
		}
	}
	for _, s := range sids {
		segments[netip.AddrFrom16(s.Addr)] = true
	}
	return ends{slices.SortedFunc(maps.Keys(peers), netip.Addr.Compare), slices.SortedFunc(maps.Keys(segments), netip.Addr.Compare)}, nil
}
