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

// ErrLostPlace is returned to a watcher that was too slow, or that asks for changes that are no
// longer remembered. It must start again with Watch and ValueStatuses.
var ErrLostPlace = errors.New("watcher lost its place: changes since its revision are not remembered any more")

// StatusEvent is a change of the status of a base value or one of its derived
// values. The state of a value that is gone is REMOVED.
type StatusEvent struct {
	// Revision counts changes of the state as a whole. All events of one
	// transaction have the same.
	Revision uint64
	// Txn is the sequence number of the transaction.
	Txn    uint64
	Status *pb.BaseValueStatus
}

// rememberedEvents bounds how far watchers may lag behind.
const rememberedEvents = 1 << 14

// statusLog holds the last status events. It is empty until the first Watch.
type statusLog struct {
	active atomic.Bool

	mu            sync.Mutex
	rev           uint64 // of the state that was published last
	completeAfter uint64 // events after this revision are complete
	events        []StatusEvent
	changed       chan struct{} // closed at the next change
}

// activate begins to remember events, if it has not begun.
func (l *statusLog) activate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active.CompareAndSwap(false, true) {
		l.completeAfter = l.rev
		l.changed = make(chan struct{})
	}
}

// publish makes the graph visible to readers, and the changes to watchers.
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
			n++ // no revision is told in part
		}
		l.events = slices.Clone(l.events[n:])
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// changedStatuses returns the statuses of base values that differ from before,
// sorted by key.
func (x *exec) changedStatuses(g *graph.Graph[*node]) []*pb.BaseValueStatus {
	bases := map[string]bool{}
	for _, c := range x.changes {
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

// Watcher reads status events in order. It is used by one goroutine, and
// needs no closing.
type Watcher struct {
	s        *Scheduler
	prefix   string
	revision uint64
}

// Revision of the state that readers see.
func (s *Scheduler) Revision() uint64 {
	s.statuses.mu.Lock()
	defer s.statuses.mu.Unlock()
	return s.statuses.rev
}

// Watch returns a watcher of base values with the key prefix, and their statuses at this moment:
// later events start there.
func (s *Scheduler) Watch(keyPrefix string) (*Watcher, []*pb.BaseValueStatus) {
	s.statuses.activate()
	s.statuses.mu.Lock()
	view, revision := s.view(), s.statuses.rev
	s.statuses.mu.Unlock()
	return &Watcher{s, keyPrefix, revision}, statusesOf(view, keyPrefix)
}

// WatchFrom returns a watcher that continues after the given revision.
func (s *Scheduler) WatchFrom(revision uint64, keyPrefix string) *Watcher {
	s.statuses.activate()
	return &Watcher{s, keyPrefix, revision}
}

// Revision is that of the last change that Next has gone past: WatchFrom
// continues there.
func (w *Watcher) Revision() uint64 { return w.revision }

// Next returns the next events, at least one, waiting for them. Errors:
// ErrLostPlace, ErrClosed, that of ctx.
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

// Settled reports whether nothing is under way for the value: it is neither PENDING
// nor RETRYING nor about to be repaired.
func Settled(st *pb.ValueStatus) bool {
	switch st.State {
	case pb.ValueState_PENDING, pb.ValueState_RETRYING, pb.ValueState_MISSING, pb.ValueState_DISCOVERED:
		return false
	}
	return true
}

// WaitSettled waits until all transactions queued before have been processed and the values with
// the keys, with all of their derived values, are settled; then it returns their statuses, which
// may be failures. If ctx ends first, it returns the present statuses and ctx's error.
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
