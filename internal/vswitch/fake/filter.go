package fake

import (
	"context"
	"maps"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type filterValues map[string]proto.Message

type filters struct{ v *VSwitch }

func (p filters) Set(ctx context.Context, values ...proto.Message) error {
	return p.Change(ctx, values, nil)
}

func (p filters) Remove(ctx context.Context, values ...proto.Message) error {
	return p.Change(ctx, nil, values)
}

func (p filters) Change(ctx context.Context, set, remove []proto.Message) error {
	return p.v.do(ctx, func(n *Node) error {
		for _, v := range set {
			n.filter[models.Key(v)] = proto.Clone(v)
		}
		for _, v := range remove {
			delete(n.filter, models.Key(v))
		}
		return nil
	})
}

func (p filters) List(ctx context.Context, _ []proto.Message) ([]proto.Message, error) {
	return list(ctx, p.v, func(n *Node) map[string]proto.Message { return n.filter })
}

// judged evaluates the node's policies for a forwarded packet, with the translated destination and
// the original source. A denial ends the trace.
func (t *tracer) judged(n *Node) bool {
	if len(n.filter) == 0 {
		return true
	}
	state := policyrules.NewState()
	for _, key := range slices.Sorted(maps.Keys(n.filter)) {
		state.Put(n.filter[key])
	}
	answer := t.packet
	answer.Src, answer.Dst = t.Src, t.dst
	if n.acl.seen[answer.answer()] { // of a permitted connection
		return true
	}
	d := state.Judge(policyrules.Connection{Src: t.Src, Dst: t.dst, Protocol: t.packet.Protocol, Port: t.packet.DstPort})
	if !d.Allowed {
		t.drop(n, "%s of %s is not allowed", d.Direction, d.Subject)
	} else if d.Subject != "" {
		t.hop(n, "list %s allows it", d.List)
	}
	return d.Allowed
}
