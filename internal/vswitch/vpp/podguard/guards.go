package podguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"go.fd.io/govpp/binapi/classify"
)

// Guards implements vswitch.SourceGuards. It is safe for concurrent use.
type Guards struct {
	subsystem.Base
	vpp    *session.Session
	ifs    *ownership.Registry
	errors Errors
	log    *slog.Logger

	mu sync.Mutex
	// learned: the fields below match VPP. They are read again after a reconnection.
	learned bool
	records map[string]*record
	ranges  *rangeRecord // nil: no source is restricted
	ports   map[ownership.Index]*port
	// open is the interface without a guard that ranges restrict, if it exists.
	open *openPort
	// stale holds tables without a port, such as from another agent version. VPP may use them until
	// the interface gets new ones.
	stale map[ownership.Index][]uint32
	// strays have only stale tables, which pass all packets except excluded ranges: their record
	// was deleted.
	strays  []ownership.Index
	long    map[string]string
	arpNext uint32
	// policers are VPP's indexes of the policers that pass packets, and that drop them; nil: not known.
	policers map[bool]uint32
	// policed has the policed tables of interfaces, and unpoliced those that a former agent has left.
	policed   map[ownership.Index]*policedPort
	unpoliced map[ownership.Index][]*found
	// network is nil until it is set: then the tables of a former agent are left as they are.
	network *network
	// counted holds the counters of deleted tables, by interface.
	counted map[string]map[vswitch.DropReason]uint64
}

// Errors provides VPP's error statistics.
type Errors interface {
	// Errors returns the error counters of graph nodes, by node and reason.
	Errors(nodes ...string) (map[string]map[string]uint64, error)
}

var _ vswitch.SourceGuards = (*Guards)(nil)

// New returns the guards of a VPP.
func New(vpp *session.Session, ifs *ownership.Registry, errors Errors, log *slog.Logger) *Guards {
	g := &Guards{Base: subsystem.Base{Uses: []*session.Module{module, recordModule, tunnelModule, addressModule, session.CliModule}}, vpp: vpp, ifs: ifs, errors: errors, log: log}
	g.long, g.counted = map[string]string{}, map[string]map[vswitch.DropReason]uint64{}
	return g
}

// Opened discards the state of the previous VPP.
func (g *Guards) Opened(context.Context, *session.Link) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	return nil
}

func (g *Guards) forget() {
	g.learned, g.records, g.ranges, g.ports, g.open, g.stale, g.strays, g.arpNext, g.policers, g.policed, g.unpoliced = false, nil, nil, nil, nil, nil, nil, 0, nil, nil, nil
}

func (g *Guards) learn(ctx context.Context) error {
	if g.learned {
		return nil
	}
	return g.read(ctx)
}

func (g *Guards) read(ctx context.Context) error {
	if err := g.learnNodes(ctx); err != nil {
		return err
	}
	records, ranges, err := g.findRecords(ctx, g.long)
	if err != nil {
		return err
	}
	tables, err := g.findTables(ctx)
	if err != nil {
		return err
	}
	roles, err := g.roles(ctx)
	if err != nil {
		return err
	}
	e, err := g.ends(ctx)
	if err != nil {
		return err
	}
	g.records, g.ranges, g.ports, g.stale = records, ranges, map[ownership.Index]*port{}, map[ownership.Index][]uint32{}
	g.policed, g.unpoliced = map[ownership.Index]*policedPort{}, map[ownership.Index][]*found{}
	for i, all := range tables {
		for _, f := range all {
			if f.isPoliced() {
				g.unpoliced[i] = append(g.unpoliced[i], f)
			}
		}
		tables[i] = slices.DeleteFunc(all, (*found).isPoliced)
	}
	for iface, r := range records {
		i, ok, err := g.ifs.Known(ctx, iface)
		if err != nil {
			return err
		}
		if now := roles[i]; !ok || r.mac == nil || !now.guarded && !now.bridged {
			continue
		}
		if p := g.recognise(i, filter(r.mac, r.all(), e), roles[i].bridged, tables[i]); p != nil {
			g.ports[i] = p
			delete(tables, i)
			if err := g.police(ctx, i, policedPort{iface: iface, bridged: true}, quoteTables(r.all())); err != nil {
				return err
			}
		}
	}
	if g.open, err = g.recogniseOpen(ctx, roles, tables); err != nil {
		return err
	}
	g.strays = nil
	for i, left := range tables {
		if isOpen(left) {
			g.strays = append(g.strays, i)
		}
		for _, f := range left {
			g.stale[i] = append(g.stale[i], f.id)
		}
	}
	g.learned = true
	return nil
}

// maxAddresses limits the addresses of a guard. Each may answer for each, so tables grow
// quadratically.
const maxAddresses = 64

// Create creates or changes a guard. If its interface exists, the guard is in effect when Create
// returns.
func (g *Guards) Create(ctx context.Context, v *guard.SourceGuard) error {
	if err := g.create(ctx, v); err != nil {
		return fmt.Errorf("guarding interface %q: %w", v.GetInterface(), err)
	}
	return nil
}

func (g *Guards) create(ctx context.Context, v *guard.SourceGuard) error {
	if n := v.GetMaxConnections(); n != 0 {
		return vswitch.Unsupported("max_connections: VPP counts the connections of no interface: leave it out")
	}
	wanted, err := recordOf(v)
	if err != nil {
		return err
	}
	if n := len(wanted.addrs); n > maxAddresses {
		return vswitch.Unsupported("ip_addresses: %d of them: use at most %d", n, maxAddresses)
	}
	iface := v.GetInterface()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long[recordTagOf(iface)] = iface
	if err := g.learn(ctx); err != nil {
		return err
	}
	if have := g.records[iface]; have != nil {
		wanted.id = have.id
	}
	if err := g.put(ctx, iface, wanted); err != nil {
		g.learned = false // the record may have been deleted
		return err
	}
	g.records[iface] = wanted
	i, exists, err := g.ifs.Known(ctx, iface)
	if err != nil || !exists {
		return err
	}
	return g.attachAs(ctx, i, iface, wanted)
}

// InterfaceCreated guards a new interface before it gets an address in VPP.
func (g *Guards) InterfaceCreated(ctx context.Context, i ownership.Index) error {
	iface := g.ifs.Seen(i)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return err
	}
	r := g.records[iface]
	if r == nil && g.ranges != nil && g.ranges.iface == iface {
		if err := g.restrictOpen(ctx); err != nil {
			return fmt.Errorf("restricting sources: %w", err)
		}
	}
	if r == nil {
		return session.Wrap("keeping packets of others from tunnels and pods", g.policeOne(ctx, i))
	}
	if r.mac == nil {
		return nil
	}
	if err := g.attachAs(ctx, i, iface, r); err != nil {
		return fmt.Errorf("guarding it: %w", err)
	}
	return nil
}

// Bridged keeps guarding an interface that became a port of a bridge domain or was cross-connected:
// permitted frames stay on layer 2.
func (g *Guards) Bridged(ctx context.Context, i ownership.Index) error {
	return g.InterfaceCreated(ctx, i)
}

// Unbridge returns an interface to layer 3 without an unguarded moment, and reports whether it is
// guarded.
func (g *Guards) Unbridge(ctx context.Context, i ownership.Index) (bool, error) {
	iface := g.ifs.Seen(i)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return false, err
	}
	r := g.records[iface]
	if r == nil || r.mac == nil || g.ports[i] == nil {
		return false, nil
	}
	return true, g.attach(ctx, i, iface, r, false)
}

// InterfaceLeaving removes the state that VPP would keep for the next interface with the same index.
func (g *Guards) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return err
	}
	if err := g.unpolice(ctx, i, g.ifs.Seen(i)); err != nil {
		return err
	}
	return g.detach(ctx, i, g.ifs.Seen(i))
}

// attachAs attaches an interface in its present role.
func (g *Guards) attachAs(ctx context.Context, i ownership.Index, iface string, r *record) error {
	roles, err := g.roles(ctx)
	if err != nil {
		return err
	}
	return g.attach(ctx, i, iface, r, roles[i].bridged)
}

// attach creates and binds an interface's tables before it deletes the former ones.
func (g *Guards) attach(ctx context.Context, i ownership.Index, iface string, r *record, bridged bool) error {
	e, err := g.ends(ctx)
	if err != nil {
		return err
	}
	if err := g.police(ctx, i, policedPort{iface: iface, bridged: true}, quoteTables(r.all())); err != nil {
		return err
	}
	p, err := g.build(ctx, i, filter(r.mac, r.all(), e), bridged)
	if err != nil {
		return err
	}
	if p.ranges, err = g.buildRanges(ctx, i, p, g.rangesOf(r)); err != nil {
		g.learned = false
		return err
	}
	if err := g.bind(ctx, i, p); err != nil {
		g.learned = false // the binding is unknown until it is read
		return err
	}
	old := g.ports[i]
	if old == nil {
		old = g.closed(i)
	}
	g.ports[i] = p
	return g.discard(ctx, i, iface, old)
}

func (g *Guards) detach(ctx context.Context, i ownership.Index, iface string) error {
	p := g.ports[i]
	if p == nil {
		p = g.closed(i)
	}
	if p == nil && g.stale[i] == nil {
		return nil
	}
	if err := g.unbind(ctx, i); err != nil {
		return err
	}
	delete(g.ports, i)
	return g.discard(ctx, i, iface, p)
}

func (g *Guards) discard(ctx context.Context, i ownership.Index, iface string, p *port) error {
	ids := g.stale[i]
	if p != nil {
		g.keepCounts(ctx, iface, p.counting())
		ids = append(ids, p.ids...)
		for _, before := range []*port{p.ranges, p.silence} {
			if before != nil {
				ids = append(ids, before.ids...)
			}
		}
	}
	delete(g.stale, i)
	if err := g.deleteTables(ctx, ids...); err != nil {
		g.learned = false
		return err
	}
	return nil
}

// Delete removes the guard; its interface then receives everything.
func (g *Guards) Delete(ctx context.Context, v *guard.SourceGuard) error {
	if err := g.delete(ctx, v.GetInterface()); err != nil {
		return fmt.Errorf("ending the guard of interface %q: %w", v.GetInterface(), err)
	}
	return nil
}

func (g *Guards) delete(ctx context.Context, iface string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return err
	}
	i, exists, err := g.ifs.Known(ctx, iface)
	if err != nil {
		return err
	}
	if exists {
		if err := errors.Join(g.unpolice(ctx, i, iface), g.detach(ctx, i, iface)); err != nil {
			return err
		}
	}
	if r := g.records[iface]; r != nil {
		if err := g.erase(ctx, r); err != nil {
			return err
		}
	}
	delete(g.records, iface)
	delete(g.counted, iface)
	delete(g.long, recordTagOf(iface))
	if !exists {
		return nil
	}
	return g.policeOne(ctx, i)
}

// List returns the guards. A guard that its existing interface does not enforce exactly lacks its
// MAC address.
func (g *Guards) List(ctx context.Context, expected []*guard.SourceGuard) ([]*guard.SourceGuard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	devices := map[string]string{}
	for _, v := range expected {
		g.long[recordTagOf(v.GetInterface())] = v.GetInterface()
		devices[v.GetInterface()] = v.GetHostIfName()
	}
	if err := g.read(ctx); err != nil {
		g.learned = false
		return nil, fmt.Errorf("listing source guards: %w", err)
	}
	e, err := g.ends(ctx)
	if err == nil {
		err = g.policeNodes(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("listing source guards: %w", err)
	}
	var list []*guard.SourceGuard
	for iface, r := range g.records {
		v := &guard.SourceGuard{Interface: iface}
		if r.mac != nil {
			v = r.value(iface)
		}
		v.HostIfName = devices[iface] // VPP knows the interface behind it
		i, exists, err := g.ifs.Known(ctx, iface)
		if err != nil {
			return nil, err
		}
		if exists && (g.ports[i] == nil || !g.ports[i].hasEnds(e)) {
			v.MacAddress = ""
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *guard.SourceGuard) int { return cmp.Compare(a.GetInterface(), b.GetInterface()) })
	return list, nil
}

// EndsChanged keeps pods from sending packets that the peers of tunnels would accept as the node's,
// or that VPP would take out of its segments.
func (g *Guards) EndsChanged(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return err
	}
	if err := g.policeNodes(ctx); err != nil {
		return fmt.Errorf("keeping packets of others from tunnels: %w", err)
	}
	if len(g.ports) == 0 {
		return nil
	}
	e, err := g.ends(ctx)
	if err != nil {
		return err
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	for i, p := range g.ports {
		g.setEnds(ctx, b, i, p, e)
	}
	if err := b.Wait(ctx); err != nil {
		g.learned = false
		return fmt.Errorf("keeping packets of pods from the ends of tunnels and segments: %w", err)
	}
	return nil
}

// setEnds updates the entries of the port's tables that depend on tunnels and segments.
func (g *Guards) setEnds(ctx context.Context, b *session.Batch, i ownership.Index, p *port, e ends) {
	for at, t := range e.tables() {
		v := t.entries[0].verdict
		for _, step := range delta.Between(entriesByMatch(p.filter[at]), entriesByMatch(t), func(a, b entry) bool { return true }) {
			b.Add(ctx, "changing the table of tunnels or segments", g.request(i, p, at, entry{[]byte(step.Key), v}, step.Kind == delta.Add),
				&classify.ClassifyAddDelSessionReply{})
		}
		p.filter[at] = t
	}
}

func entriesByMatch(t *table) map[string]entry {
	entries := map[string]entry{}
	for _, e := range t.entries {
		entries[string(e.match)] = e
	}
	return entries
}

var errNoCount = errors.New("VPP's answer has no counts")
