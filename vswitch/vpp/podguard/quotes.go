package podguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/policer"
	"go.fd.io/govpp/binapi/policer_types"
)

// A table compares at most 80 bytes, and 96 bytes lie between the next header of an ICMPv6 error
// and the end of the quoted destination. So the quote is compared by a second classifier, after the
// source:
//
//	ip6-input ─> ip6-policer-classify ─┬─ error about a packet to the pod ─> routes
//	                                   ├─ other error ─> dropped
//	                                   └─ anything else ─> routes
//
// This classifier leads packets to policers: to one that passes all packets, and to one that drops
// all. It begins at the Ethernet header, on layer 2 and on layer 3. Bridged interfaces use
// l2-policer-classify with the same tables.
//
// policer_classify_dump reads out of bounds in VPP 25.10, so the bindings are not read.

// quoteTables returns the tables for ICMPv6 errors that quote packets to the addresses, and for
// others. The sources of packets are known to be right.
func quoteTables(own []netip.Addr) []*table {
	received := &table{chain: chainIP6, spans: []span{errorType6, quotedDestination6}, continues: true}
	others := &table{chain: chainIP6, spans: []span{etherType, next6, errorType6}, continues: true}
	for _, a := range own {
		if a.Is6() {
			received.add(quoted, one(0), ip(a))
		}
	}
	others.add(unquoted, two(etherTypeIP6), one(icmp6), one(0))
	return []*table{received, others}
}

// policers are VPP's indexes of the policers of verdicts.
type policers map[verdict]uint32

var policerNames = map[verdict]string{quoted: "contiv:pass", unquoted: "contiv:drop"}

// maxPolicers limits the search for our policers among others.
const maxPolicers = 1024

// learnPolicers creates the policers, or finds those of a former agent.
func (g *Guards) learnPolicers(ctx context.Context) error {
	if g.policers != nil {
		return nil
	}
	found := policers{}
	for v, name := range policerNames {
		action := policer_types.Sse2QosAction{Type: policer_types.SSE2_QOS_ACTION_API_TRANSMIT}
		if v == unquoted {
			action.Type = policer_types.SSE2_QOS_ACTION_API_DROP
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
		found[v] = reply.PolicerIndex
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

// bindQuotes makes an interface compare quotes by the port's tables instead of the former ones.
func (g *Guards) bindQuotes(ctx context.Context, b *session.Batch, i ownership.Index, p *port, former []uint32) {
	g.unbindQuotes(ctx, b, i, former)
	if p.quotes != nil {
		b.Add(ctx, "binding tables of quotes", quoteBinding(i, p.quotes.first(chainIP6), true), &classify.PolicerClassifySetInterfaceReply{})
	}
}

func (g *Guards) unbindQuotes(ctx context.Context, b *session.Batch, i ownership.Index, former []uint32) {
	for _, id := range former {
		b.Add(ctx, "unbinding tables of quotes", quoteBinding(i, id, false), &classify.PolicerClassifySetInterfaceReply{}, api.NO_SUCH_TABLE, api.INVALID_SW_IF_INDEX)
	}
}

func quoteBinding(i ownership.Index, table uint32, add bool) *classify.PolicerClassifySetInterface {
	return &classify.PolicerClassifySetInterface{SwIfIndex: i, IP4TableIndex: none, IP6TableIndex: table, L2TableIndex: table, IsAdd: add}
}

// quoteHeads returns the tables that an interface may use for quotes.
func (g *Guards) quoteHeads(i ownership.Index) (ids []uint32) {
	if p := g.ports[i]; p != nil && p.quotes != nil {
		ids = append(ids, p.quotes.first(chainIP6))
	}
	return append(ids, g.stale[i]...)
}

// recogniseQuotes returns a port's tables of quotes if they are exactly the wanted ones; nil: they
// differ.
func (g *Guards) recogniseQuotes(i ownership.Index, wanted []*table, tables []*found) *port {
	if len(tables) != len(wanted) {
		return nil
	}
	p := &port{filter: wanted}
	var infos []*classify.ClassifyTableInfoReply
	for _, t := range wanted {
		n := slices.IndexFunc(tables, func(f *found) bool { return g.same(i, t, false, f) })
		if n < 0 {
			return nil
		}
		p.ids, infos = append(p.ids, tables[n].id), append(infos, tables[n].info)
	}
	for n, info := range infos {
		if info.NextTableIndex != p.next(n) || info.MissNextIndex != wanted[n].missNext() {
			return nil
		}
	}
	return p
}
