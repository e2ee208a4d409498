package kvscheduler

import (
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// Snapshot is an immutable view of all values at one moment. It is cheap to create, and safe for
// concurrent use.
type Snapshot struct {
	x *view
}

func (s *Scheduler) snapshotOf(g *graph.Graph[*node]) Snapshot {
	return Snapshot{&view{g: g, keySets: &keySets{}, reg: s.registry.Load()}}
}

// Snapshot returns the values after the last transaction.
func (s *Scheduler) Snapshot() Snapshot { return s.snapshotOf(s.view()) }

// SnapshotAt returns the values at the given time. It returns ErrNotRecorded if the history does not
// cover that time.
func (s *Scheduler) SnapshotAt(t time.Time) (Snapshot, error) {
	g, err := s.history.at(t)
	if err != nil {
		return Snapshot{}, err
	}
	return s.snapshotOf(g), nil
}

// Get returns the value with the key, or nil.
func (v Snapshot) Get(key string) *ValueSnapshot {
	if n := v.x.get(key); n != nil {
		return n.snapshot()
	}
	return nil
}

// Graphed returns the value with the key and the matches of its AnyOf dependencies, or nil.
func (v Snapshot) Graphed(key string) *ValueSnapshot {
	if n := v.x.get(key); n != nil {
		return v.graphed(n)
	}
	return nil
}

func (v Snapshot) graphed(n *node) *ValueSnapshot {
	s := n.snapshot()
	s.Matching = v.x.matching(n)
	return s
}

// Values returns all values with the matches of their AnyOf dependencies, sorted by key.
func (v Snapshot) Values() []*ValueSnapshot {
	values := make([]*ValueSnapshot, 0, v.x.g.Len())
	v.x.g.Ascend("", func(_ string, n *node) bool {
		values = append(values, v.graphed(n))
		return true
	})
	return values
}

// Ascend visits the values with the key prefix in the order of their keys until visit returns false.
func (v Snapshot) Ascend(prefix string, visit func(*ValueSnapshot) bool) {
	v.x.g.Ascend(prefix, func(_ string, n *node) bool { return visit(n.snapshot()) })
}

// Keys visits the keys with the prefix in order until visit returns false.
func (v Snapshot) Keys(prefix string, visit func(key string) bool) {
	v.x.g.Ascend(prefix, func(key string, _ *node) bool { return visit(key) })
}

// Neighbours returns the existing keys before and after the key, or "".
func (v Snapshot) Neighbours(key string) (before, after string) {
	before, _, _ = v.x.g.SeekBack(key)
	after, _, _ = v.x.g.Seek(key)
	return before, after
}

// NeededBy returns the sorted keys of the values that depend on the key.
func (v Snapshot) NeededBy(key string) []string { return v.x.g.Needers(nil, key) }

// Available reports whether other values may depend on the value with the key.
func (v Snapshot) Available(key string) bool { return v.x.isAvailable(key) }

// Described reports whether a descriptor is registered for the key.
func (v Snapshot) Described(key string) bool { return v.x.reg.find(key) != nil }

// Candidates visits the existing keys that match the dependency with the given index in Needs until
// visit returns false.
func (v Snapshot) Candidates(key string, need int, visit func(key string) bool) {
	if n := v.x.get(key); n != nil && need < len(n.deps) {
		v.x.candidates(&n.deps[need], func(t *node) bool { return visit(t.key) })
	}
}

// WaitsFor reports whether the value with the key is PENDING and the other key would satisfy one of its
// unmet dependencies.
func (v Snapshot) WaitsFor(key, other string) bool {
	n := v.x.get(key)
	return n != nil && n.State() == pb.ValueState_PENDING &&
		slices.ContainsFunc(n.deps, func(d Dependency) bool { return d.matches(other) && !v.x.met(&d) })
}

// WouldDerive returns the keys that a PENDING value will derive.
func (v Snapshot) WouldDerive(key string) []string {
	if n := v.x.get(key); n != nil && n.State() == pb.ValueState_PENDING && n.info() != nil {
		return n.info().derives
	}
	return nil
}

// NextRetry returns the time and the number of the next retry of a failed value. The time is zero if no
// retry is scheduled.
func (v Snapshot) NextRetry(key string) (at time.Time, attempt int) {
	if n := v.x.get(key); n != nil && n.info() != nil && n.State() == pb.ValueState_RETRYING {
		return n.info().retryAt, n.info().attempt
	}
	return time.Time{}, 0
}

// Diff returns the differences between v and a later snapshot, sorted by key.
func (v Snapshot) Diff(later Snapshot) []record.Diff {
	var diffs []record.Diff
	a, b := v.x.g, later.x.g
	a.Ascend("", func(key string, old *node) bool {
		now, ok := b.Get(key)
		switch {
		case !ok:
			diffs = append(diffs, record.Diff{Key: key, From: old.snapshot()})
		case now != old && !sameNode(old, now):
			diffs = append(diffs, record.Diff{Key: key, From: old.snapshot(), To: now.snapshot()})
		}
		return true
	})
	b.Ascend("", func(key string, now *node) bool {
		if _, ok := a.Get(key); !ok {
			diffs = append(diffs, record.Diff{Key: key, To: now.snapshot()})
		}
		return true
	})
	slices.SortFunc(diffs, func(a, b record.Diff) int { return strings.Compare(a.Key, b.Key) })
	return diffs
}

// Descriptors returns the registered descriptors, sorted by name.
func (v Snapshot) Descriptors() []DescriptorInfo {
	infos := make([]DescriptorInfo, 0, len(v.x.reg.spaces))
	for _, h := range v.x.reg.spaces {
		infos = append(infos, DescriptorInfo{h.name, h.keys.Prefix, h.nb, h.owns})
	}
	slices.SortFunc(infos, func(a, b DescriptorInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// DescriptorInfo describes a registered descriptor.
type DescriptorInfo struct {
	Name, KeyPrefix string
	// NB is true if the northbound may request values of the descriptor.
	NB   bool
	Owns func(key string) bool
}

func (n *node) snapshot() *ValueSnapshot {
	v := &ValueSnapshot{
		Key: n.key, Base: n.base(), Want: n.want, Have: n.have, Metadata: n.meta(), State: n.State(), Origin: n.origin(),
		LastOperation: n.lastOperation(), Error: message(n.err()), Details: n.details(), Derived: n.derived(), Txn: n.txn,
	}
	if n.desc != nil {
		v.Descriptor = n.desc.name
	}
	for i := range n.deps {
		v.Needs = append(v.Needs, Need{Label: n.depLabel(i), Target: n.deps[i].target()})
	}
	return v
}

// matching returns existing keys that match the AnyOf dependencies of the value, at most 16 for each.
func (v *view) matching(n *node) []Need {
	const some = 16
	var found []Need
	for i := range n.deps {
		d := &n.deps[i]
		if d.Key != "" {
			continue
		}
		left := some
		v.candidates(d, func(t *node) bool {
			found = append(found, Need{Label: n.depLabel(i), Target: t.key})
			left--
			return left > 0
		})
	}
	return found
}

// sameNode reports whether the versions do not differ for a user.
func sameNode(a, b *node) bool {
	return a.state == b.state && proto.Equal(a.want, b.want) && message(a.err()) == message(b.err()) &&
		(a.txn == b.txn || proto.Equal(a.have, b.have))
}
