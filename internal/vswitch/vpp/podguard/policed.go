package podguard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/policer"
	"go.fd.io/govpp/binapi/policer_types"
)

// Policed tables are those of the features ip4-policer-classify and ip6-policer-classify, which
// packets pass before access lists, translation and routes. They lead to policers: one passes all
// packets, and one drops all. Packets that match no entry go on. Access lists and MAC-IP lists use
// other features.
//
// The tables compare frames from the Ethernet header on. So they are for devices, without VLAN tags.
//
// policer_classify_dump reads out of bounds in VPP 25.10, so the bindings are not read: the tables
// of an interface are bound again when they are recognised.

// policedPort is the policed tables of an interface.
type policedPort struct {
	*port
	iface string
	// bridged also binds the tables of IPv6 where layer 2 polices.
	bridged bool
}

var policerNames = map[bool]string{true: "contiv:pass", false: "contiv:drop"}

// maxPolicers limits the search for our policers among others.
const maxPolicers = 1024

// learnPolicers creates the policers, or finds those of a former agent.
func (g *Guards) learnPolicers(ctx context.Context) error {
	if g.policers != nil {
		return nil
	}
	found := map[bool]uint32{}
	for passes, name := range policerNames {
		action := policer_types.Sse2QosAction{Type: policer_types.SSE2_QOS_ACTION_API_DROP}
		if passes {
			action.Type = policer_types.SSE2_QOS_ACTION_API_TRANSMIT
		}
		var reply policer.PolicerAddReply
		err := g.vpp.Call(ctx, module, &policer.PolicerAdd{Name: name, Infos: policer_types.PolicerConfig{
			Cir: 1000, Cb: 10000, ConformAction: action, ExceedAction: action, ViolateAction: action,
		}}, &reply)
		if vppapi.Refused(err, api.VALUE_EXIST) {
			reply.PolicerIndex, err = g.findPolicer(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("making the policer %s: %w", name, err)
		}
		found[passes] = reply.PolicerIndex
	}
	g.policers = found
	return nil
}

// findPolicer returns the index of a policer. Only a dump of one index tells it.
func (g *Guards) findPolicer(ctx context.Context, name string) (uint32, error) {
	for i := range uint32(maxPolicers) {
		found, err := session.Dump[policer.PolicerDetails](ctx, g.vpp, module, &policer.PolicerDumpV2{PolicerIndex: i})
		if err != nil {
			return 0, err
		}
		if len(found) > 0 && found[0].Name == name {
			return i, nil
		}
	}
	return 0, errors.New("VPP has it, and does not list it")
}

// police sets the policed tables of an interface. If the tables stay the same, only entries change.
func (g *Guards) police(ctx context.Context, i ownership.Index, want policedPort, wanted []*table) error {
	if err := g.learnNodes(ctx); err != nil {
		return err
	}
	l, err := g.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	have := g.policed[i]
	if have == nil {
		if have = g.recognisePoliced(i, want, wanted); have != nil {
			have.bind(ctx, b, i)
			g.policed[i] = have
			delete(g.unpoliced, i)
		}
	}
	if have != nil && have.bridged == want.bridged && have.isLike(wanted) {
		for n, t := range wanted {
			g.changeEntries(ctx, b, i, have.port, n, t)
		}
		return b.Wait(ctx)
	}
	if have == nil && len(g.unpoliced[i]) == 0 && len(wanted) == 0 {
		return nil
	}
	if len(wanted) > 0 {
		if want.port, err = g.build(ctx, i, wanted, false); err != nil {
			return err
		}
	}
	old := g.unbindPoliced(ctx, b, i)
	if want.port != nil {
		want.bind(ctx, b, i)
	}
	if err := b.Wait(ctx); err != nil {
		g.learned = false // the binding is unknown until it is read
		return err
	}
	g.keepCounts(ctx, want.iface, have.counted())
	if delete(g.policed, i); want.port != nil {
		g.policed[i] = &want
	}
	delete(g.unpoliced, i)
	return g.deleteTables(ctx, old...)
}

// changeEntries makes a table of a port have the entries of t.
func (g *Guards) changeEntries(ctx context.Context, b *session.Batch, i ownership.Index, p *port, n int, t *table) {
	now, wanted := verdictsByMatch(p.filter[n]), verdictsByMatch(t)
	plan := delta.Between(now, wanted, func(a, b verdict) bool { return a == b })
	plan.Sort(delta.Order[string]{}) // a table without entries would have no mark
	for _, step := range plan {
		add := step.Kind != delta.Remove
		v := wanted[step.Key]
		if !add {
			v = now[step.Key]
		}
		b.Add(ctx, "changing a table of the classifier", g.request(i, p, n, entry{[]byte(step.Key), v}, add), &classify.ClassifyAddDelSessionReply{})
	}
	p.filter[n] = t
}

func verdictsByMatch(t *table) map[string]verdict {
	list := map[string]verdict{}
	for _, e := range t.entries {
		list[string(e.match)] = e.verdict
	}
	return list
}

// unpolice removes the policed tables of an interface.
func (g *Guards) unpolice(ctx context.Context, i ownership.Index, iface string) error {
	return g.police(ctx, i, policedPort{iface: iface}, nil)
}

func (p *policedPort) counted() []uint32 {
	if p == nil {
		return nil
	}
	return p.counting()
}

func (p *policedPort) binding(i ownership.Index) *classify.PolicerClassifySetInterface {
	layer2 := none
	if p.bridged {
		layer2 = p.first(chainIP6)
	}
	return &classify.PolicerClassifySetInterface{SwIfIndex: i, IP4TableIndex: p.first(chainIP4), IP6TableIndex: p.first(chainIP6), L2TableIndex: layer2, IsAdd: true}
}

func (p *policedPort) bind(ctx context.Context, b *session.Batch, i ownership.Index) {
	b.Add(ctx, "binding policed tables", p.binding(i), &classify.PolicerClassifySetInterfaceReply{})
}

// unbindPoliced unbinds the policed tables of an interface, and returns them. It tries tables
// of a former agent for all features, because any may be bound.
func (g *Guards) unbindPoliced(ctx context.Context, b *session.Batch, i ownership.Index) (ids []uint32) {
	unbind := func(request *classify.PolicerClassifySetInterface) {
		request.SwIfIndex, request.IsAdd = i, false
		b.Add(ctx, "unbinding policed tables", request, &classify.PolicerClassifySetInterfaceReply{}, api.NO_SUCH_TABLE, api.INVALID_SW_IF_INDEX)
	}
	if p := g.policed[i]; p != nil {
		unbind(p.binding(i))
		ids = append(ids, p.ids...)
	}
	for _, f := range g.unpoliced[i] {
		for n := range 3 {
			tables := [3]uint32{none, none, none}
			tables[n] = f.id
			unbind(&classify.PolicerClassifySetInterface{IP4TableIndex: tables[0], IP6TableIndex: tables[1], L2TableIndex: tables[2]})
		}
		ids = append(ids, f.id)
	}
	return ids
}

// recognisePoliced returns the tables of a former agent if they are exactly the wanted ones; nil:
// they differ.
func (g *Guards) recognisePoliced(i ownership.Index, want policedPort, wanted []*table) *policedPort {
	tables := g.unpoliced[i]
	if len(tables) != len(wanted) || len(tables) == 0 {
		return nil
	}
	p := &port{filter: wanted}
	var infos []*classify.ClassifyTableInfoReply
	for _, t := range wanted {
		n := slices.IndexFunc(tables, func(f *found) bool { return g.same(i, t, false, f) && !slices.Contains(p.ids, f.id) })
		if n < 0 {
			return nil
		}
		p.ids, infos = append(p.ids, tables[n].id), append(infos, tables[n].info)
	}
	for n, info := range infos {
		if info.NextTableIndex != p.next(n) {
			return nil
		}
	}
	want.port = p
	return &want
}

// isPoliced reports whether a table is one that packets pass without an entry.
func (f *found) isPoliced() bool { return f.info.MissNextIndex == none }
