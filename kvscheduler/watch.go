package kvscheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
)

// ErrLostPlace is returned to a watcher after its next events were dropped. The watcher must start
// again with Watch.
var ErrLostPlace = errors.New("watcher lost its place: events since its revision were dropped")

// StatusEvent is a change of the status of a base value or one of its derived values. The state of a
// removed value is REMOVED.
type StatusEvent struct {
	// Revision is the revision of the state that contains the change. All events of a transaction
	// have the same revision.
	Revision uint64
	// Txn is the sequence number of the transaction.
	Txn    uint64
	Status *pb.BaseValueStatus
}

// rememberedEvents is the maximum number of events that a watcher may lag behind.
const rememberedEvents = 1 << 14

// statusLog holds the last status events. It is empty until the first Watch.
type statusLog struct {
	active atomic.Bool

	mu            sync.Mutex
	rev           uint64 // revision of the published state
	completeAfter uint64 // all events after this revision are present
	events        []StatusEvent
	changed       chan struct{} // closed at the next change
}

// activate starts the collection of events.
func (l *statusLog) activate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active.CompareAndSwap(false, true) {
		l.completeAfter = l.rev
		l.changed = make(chan struct{})
	}
}

// publish makes the graph visible to readers and the events to watchers.
func (s *Scheduler) publish(x *exec) {
	l := &s.statuses
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rev++
	s.history.publish(s.graph, x.changes)
	if !l.active.Load() {
		return
	}
	for _, st := range x.changedStatuses(s.graph) {
		l.events = append(l.events, StatusEvent{l.rev, x.seq, st})
	}
	if n := len(l.events) - rememberedEvents; n > 0 {
		l.completeAfter = l.events[n-1].Revision
		for n < len(l.events) && l.events[n].Revision == l.completeAfter {
			n++ // drop only whole revisions
		}
		l.events = slices.Clone(l.events[n:])
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// changedStatuses returns the changed statuses of base values, sorted by key.
func (v *view) changedStatuses(g *graph.Graph[*node]) []*pb.BaseValueStatus {
	bases := map[string]bool{}
	for _, c := range v.changes {
		if c.old == nil || c.removesNode() || c.old.state != c.new.state || c.old.lastOp != c.new.lastOp ||
			message(c.old.err()) != message(c.new.err()) || !slices.Equal(c.old.details(), c.new.details()) {
			bases[c.new.baseKey()] = true
		}
	}
	statuses := make([]*pb.BaseValueStatus, 0, len(bases))
	for key := range bases {
		if n, ok := g.Get(key); ok {
			statuses = append(statuses, baseStatus(g, n))
		} else {
			statuses = append(statuses, &pb.BaseValueStatus{Value: &pb.ValueStatus{
				Key: key, State: pb.ValueState_REMOVED, LastOperation: pb.TxnOperation_DELETE}})
		}
	}
	slices.SortFunc(statuses, func(a, b *pb.BaseValueStatus) int { return strings.Compare(a.Value.Key, b.Value.Key) })
	return statuses
}

// Watcher reads status events in order. It must be used by one goroutine, and needs no Close.
type Watcher struct {
	s        *Scheduler
	prefix   string
	revision uint64
}

// Revision returns the revision of the state that readers see.
func (s *Scheduler) Revision() uint64 {
	s.statuses.mu.Lock()
	defer s.statuses.mu.Unlock()
	return s.statuses.rev
}

// Watch returns the current statuses of the base values with the key prefix, and a watcher of all later
// events.
func (s *Scheduler) Watch(keyPrefix string) (*Watcher, []*pb.BaseValueStatus) {
	s.statuses.activate()
	s.statuses.mu.Lock()
	view, revision := s.view(), s.statuses.rev
	s.statuses.mu.Unlock()
	return &Watcher{s, keyPrefix, revision}, statusesOf(view, keyPrefix)
}

// WatchFrom returns a watcher of the events after the given revision.
func (s *Scheduler) WatchFrom(revision uint64, keyPrefix string) *Watcher {
	s.statuses.activate()
	return &Watcher{s, keyPrefix, revision}
}

// Revision returns the revision of the last event that Next passed. WatchFrom continues after it.
func (w *Watcher) Revision() uint64 { return w.revision }

// Next waits for events and returns at least one. It returns ErrLostPlace, ErrClosed, or the error of
// ctx.
func (w *Watcher) Next(ctx context.Context) ([]StatusEvent, error) {
	l := &w.s.statuses
	for {
		l.mu.Lock()
		if w.revision < l.completeAfter || w.revision > l.rev {
			l.mu.Unlock()
			return nil, ErrLostPlace
		}
		from, _ := slices.BinarySearchFunc(l.events, w.revision+1, func(e StatusEvent, rev uint64) int {
			if e.Revision < rev {
				return -1
			}
			return 1
		})
		var events []StatusEvent
		for _, e := range l.events[from:] {
			if strings.HasPrefix(e.Status.Value.Key, w.prefix) {
				events = append(events, e)
			}
		}
		w.revision = l.rev
		changed := l.changed
		l.mu.Unlock()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.s.stopped:
			return nil, ErrClosed
		}
	}
}

// Settled reports whether the value is in a final state: it is neither PENDING nor RETRYING, and no repair
// is due.
func Settled(st *pb.ValueStatus) bool {
	switch st.State {
	case pb.ValueState_PENDING, pb.ValueState_RETRYING, pb.ValueState_MISSING, pb.ValueState_DISCOVERED:
		return false
	}
	return true
}

// WaitSettled waits until the transactions that were queued before have been processed and the values
// with the keys and their derived values are settled. It returns their statuses, which may be failures.
// If ctx ends first, it returns the current statuses and the error of ctx.
func (s *Scheduler) WaitSettled(ctx context.Context, keys ...string) ([]*pb.BaseValueStatus, error) {
	s.statuses.activate()
	if err := s.Barrier(ctx); err != nil {
		return nil, err
	}
	for {
		s.statuses.mu.Lock()
		changed := s.statuses.changed
		s.statuses.mu.Unlock()
		statuses := make([]*pb.BaseValueStatus, len(keys))
		settled := true
		for i, key := range keys {
			statuses[i] = s.ValueStatus(key)
			settled = settled && Settled(statuses[i].Value) && !slices.ContainsFunc(statuses[i].DerivedValues, func(d *pb.ValueStatus) bool { return !Settled(d) })
		}
		if settled {
			return statuses, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return statuses, ctx.Err()
		case <-s.stopped:
			return statuses, ErrClosed
		}
	}
}
