package kvscheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
	"google.golang.org/protobuf/proto"
)

// The history holds, with each transaction, the nodes that it changed: old and
// new. The graph of a past moment is the present one with the changes since then
// taken back. Nothing is copied for that but the paths to the changed nodes.

// ErrNotRecorded: the history does not reach back that far.
var ErrNotRecorded = errors.New("not in the history (any more)")

// ValueSnapshot is a value at one moment.
type ValueSnapshot struct {
	Key        string
	Descriptor string // empty for properties
	Base       string // for derived values
	// Want is what should exist, Have what does, as far as known; either may be nil.
	Want, Have    proto.Message
	Metadata      any
	State         pb.ValueState
	Origin        Origin
	LastOperation pb.TxnOperation
	Error         string
	Details       []string
	Derived       []string
	// Needs are the dependencies, by label; an AnyOf is rendered as text.
	Needs []Need
	// Matching are, in a graph, the existing keys that match an AnyOf of Needs, by its label;
	// the first 16 of each.
	Matching []Need
	// Txn is the transaction that changed the value last.
	Txn uint64
}

// Need is a dependency in a snapshot.
type Need struct{ Label, Target string }

func (n *node) snapshot() *ValueSnapshot {
	v := &ValueSnapshot{
		Key: n.key, Base: n.base, Want: n.want, Have: n.have, Metadata: n.meta, State: n.State(), Origin: n.origin(),
		LastOperation: n.lastOperation(), Error: message(n.err()), Details: n.details(), Derived: n.derived, Txn: n.txn,
	}
	if n.desc != nil {
		v.Descriptor = n.desc.name
	}
	for i := range n.deps {
		v.Needs = append(v.Needs, Need{n.depLabel(i), n.deps[i].target()})
	}
	return v
}

// gone reports whether the changed node left the graph with its change.
func (c change) gone() bool {
	s := c.new.State()
	return c.new.want == nil && c.new.have == nil && (s == pb.ValueState_NONEXISTENT || s == pb.ValueState_REMOVED)
}

// at returns the graph as it was at the given time.
func (h *history) at(t time.Time) (*graph.Graph[*node], error) {
	if h.limits.Disabled {
		return nil, fmt.Errorf("%w: the history is disabled", ErrNotRecorded)
	}
	h.mu.Lock() // copying a graph changes it
	defer h.mu.Unlock()
	after := sort.Search(len(h.records), func(i int) bool { return h.records[i].txn.Stop.After(t) })
	if after < h.init && h.gap {
		// Only the first records lead there, forwards.
		if h.cut {
			return nil, fmt.Errorf("%w: %s", ErrNotRecorded, t.Format(time.RFC3339))
		}
		g := graph.New[*node]()
		for _, r := range h.records[:after] {
			r.redo(g)
		}
		return g, nil
	}
	if after == h.init && h.gap || after == 0 && h.cut {
		return nil, fmt.Errorf("%w: %s", ErrNotRecorded, t.Format(time.RFC3339))
	}
	if h.graph == nil {
		return graph.New[*node](), nil
	}
	g := h.graph.Copy()
	for i := len(h.records) - 1; i >= after; i-- {
		h.records[i].undo(g)
	}
	return g, nil
}

func (r *record) undo(g *graph.Graph[*node]) {
	for i := len(r.changes) - 1; i >= 0; i-- {
		if c := r.changes[i]; c.old == nil {
			g.Delete(c.new.key)
		} else {
			g.Set(c.old)
		}
	}
}

func (r *record) redo(g *graph.Graph[*node]) {
	for _, c := range r.changes {
		if c.gone() {
			g.Delete(c.new.key)
		} else {
			g.Set(c.new)
		}
	}
}

// GraphAt returns all values as they were at the given time, sorted by key;
// ErrNotRecorded if the history does not tell.
func (s *Scheduler) GraphAt(t time.Time) ([]*ValueSnapshot, error) {
	g, err := s.history.at(t)
	if err != nil {
		return nil, err
	}
	return snapshots(g), nil
}

// Graph returns all values as they are, sorted by key.
func (s *Scheduler) Graph() []*ValueSnapshot { return snapshots(s.view()) }

func snapshots(g *graph.Graph[*node]) []*ValueSnapshot {
	x := &exec{g: g, sets: &sets{}}
	values := make([]*ValueSnapshot, 0, g.Len())
	g.Ascend("", func(_ string, n *node) bool {
		v := n.snapshot()
		v.Matching = x.matching(n)
		values = append(values, v)
		return true
	})
	return values
}

// matching returns existing keys that match the AnyOfs of the value.
func (x *exec) matching(n *node) []Need {
	const some = 16
	var found []Need
	for i := range n.deps {
		d := &n.deps[i]
		if d.Key != "" {
			continue
		}
		left := some
		x.candidates(d, func(t *node) bool {
			found = append(found, Need{n.depLabel(i), t.key})
			left--
			return left > 0
		})
	}
	return found
}

// Revision is a value over a time during which it did not change.
type Revision struct {
	// Txn is the transaction that led to it.
	Txn uint64
	// Since and Until are the end of that transaction and of the next one that
	// changed the value. Until is zero for the present.
	Since, Until time.Time
	// Value is nil while there was none.
	Value *ValueSnapshot
}

// Timeline returns what the history knows of a key, oldest first.
func (s *Scheduler) Timeline(key string) []Revision {
	var revisions []Revision
	for _, r := range s.history.list(time.Time{}, time.Time{}) {
		var last *change
		for i := range r.changes {
			if r.changes[i].new.key == key && !r.changes[i].silent() {
				last = &r.changes[i]
			}
		}
		if last == nil {
			continue
		}
		rev := Revision{Txn: r.txn.SeqNum, Since: r.txn.Stop}
		if !last.gone() {
			rev.Value = last.new.snapshot()
		}
		if n := len(revisions); n > 0 {
			revisions[n-1].Until = rev.Since
		}
		revisions = append(revisions, rev)
	}
	return revisions
}

// ValueDiff is a value that differs between two moments.
type ValueDiff struct {
	Key string
	// From is nil for what did not exist, To for what does not any more.
	From, To *ValueSnapshot
}

// Diff returns the values that differ between two moments, sorted by key. A zero
// "to" is now.
func (s *Scheduler) Diff(from, to time.Time) ([]ValueDiff, error) {
	if to.IsZero() {
		to = time.Now()
	}
	a, err := s.history.at(from)
	if err != nil {
		return nil, err
	}
	b, err := s.history.at(to)
	if err != nil {
		return nil, err
	}
	var diffs []ValueDiff
	a.Ascend("", func(key string, old *node) bool {
		now, ok := b.Get(key)
		switch {
		case !ok:
			diffs = append(diffs, ValueDiff{key, old.snapshot(), nil})
		case now != old && !sameNode(old, now):
			diffs = append(diffs, ValueDiff{key, old.snapshot(), now.snapshot()})
		}
		return true
	})
	b.Ascend("", func(key string, now *node) bool {
		if _, ok := a.Get(key); !ok {
			diffs = append(diffs, ValueDiff{key, nil, now.snapshot()})
		}
		return true
	})
	sort.Slice(diffs, func(i, j int) bool { return diffs[i].Key < diffs[j].Key })
	return diffs, nil
}

// sameNode reports whether people see no difference.
func sameNode(a, b *node) bool {
	return a.state == b.state && proto.Equal(a.want, b.want) && message(a.err()) == message(b.err()) &&
		(a.txn == b.txn || proto.Equal(a.have, b.have))
}

type snapshotForm struct {
	Key           string
	Descriptor    string `json:",omitempty"`
	Base          string `json:",omitempty"`
	Want          jsonValue
	Have          jsonValue
	Metadata      any `json:",omitempty"`
	State         string
	Origin        string
	LastOperation string
	Error         string   `json:",omitempty"`
	Details       []string `json:",omitempty"`
	Derived       []string `json:",omitempty"`
	Needs         []Need   `json:",omitempty"`
	Matching      []Need   `json:",omitempty"`
	Txn           uint64
}

// MarshalJSON writes states as strings and values as KeyValue does.
func (v ValueSnapshot) MarshalJSON() ([]byte, error) {
	f := snapshotForm{
		v.Key, v.Descriptor, v.Base, jsonValue{v.Want}, jsonValue{v.Have}, v.Metadata, v.State.String(), v.Origin.String(),
		v.LastOperation.String(), v.Error, v.Details, v.Derived, v.Needs, v.Matching, v.Txn,
	}
	if _, err := json.Marshal(f.Metadata); err != nil {
		f.Metadata = fmt.Sprintf("%+v", v.Metadata)
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *ValueSnapshot) UnmarshalJSON(b []byte) error {
	var f snapshotForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	state, err := parseState(f.State)
	if err != nil {
		return err
	}
	origin, err := parseName(originNames, f.Origin, "origin")
	if err != nil {
		return err
	}
	*v = ValueSnapshot{
		f.Key, f.Descriptor, f.Base, f.Want.Message, f.Have.Message, f.Metadata, state, origin,
		pb.TxnOperation(pb.TxnOperation_value[f.LastOperation]), f.Error, f.Details, f.Derived, f.Needs, f.Matching, f.Txn,
	}
	return nil
}
