package controller

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxQueued limits each lane.
	maxQueued = 8192
	// maxBatch limits the events per transaction.
	maxBatch = 512
	// maxOvertaking limits how many events in a row may overtake bulk.
	maxOvertaking = 16
)

type queued struct {
	event    Event
	enqueued time.Time
	// followUp: a handler sent the event while event followUpTo was processed.
	followUp   bool
	followUpTo uint64
}

// queue holds the pending events. Any goroutine may push; only the event loop takes.
//
// It has three lanes, each first in, first out: follow-ups, which precede everything else; bulk,
// that is database changes without a waiting caller and resyncs requested after them; and all other
// events, which overtake bulk. So a pod's ADD does not wait for a thousand Kubernetes changes.
type queue struct {
	mu        sync.Mutex
	followUps []queued
	events    []queued
	bulk      []queued
	closed    error
	// overtaken counts the events that overtook bulk since the last bulk event.
	overtaken int
	// ready has a token when the queue may be non-empty.
	ready chan struct{}
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push appends an event without blocking. Events of the loop itself are not limited. A snapshot of
// the database replaces the changes queued before it.
func (q *queue) push(e queued, limited bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := &q.events
	switch {
	case e.followUp:
		list = &q.followUps
	case isBulk(e.event), isRequested(e.event):
		list = &q.bulk
	}
	switch {
	case q.closed != nil:
		return q.closed
	case limited && len(*list) >= maxQueued:
		return fmt.Errorf("%w (%d events are waiting)", ErrQueueFull, len(*list))
	}
	if resync, ok := e.event.(*DBResync); ok && !resync.Local {
		q.bulk = slices.DeleteFunc(q.bulk, func(e queued) bool { return isBulk(e.event) }) // they have no waiting senders
	}
	*list = append(*list, e)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.followUps) + len(q.events) + len(q.bulk)
}

// isBulk reports whether the event is a change in the database.
func isBulk(event Event) bool {
	switch e := event.(type) {
	case *KubeStateChange:
		return true
	case *ExternalConfigChange:
		return e.Source == DatabaseSource && e.Result == nil
	}
	return false
}

// isRequested reports whether the event is a requested resync. It must not overtake database
// changes, since the requester may have made them.
func isRequested(event Event) bool {
	_, ok := event.(*RequestedResync)
	return ok
}

// take removes the next event. Before the startup resync it takes only a DBResync or a follow-up.
func (q *queue) take(started bool) (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.followUps) > 0 {
		return takeAt(&q.followUps, 0), true
	}
	if !started {
		i := q.resync()
		if i < 0 {
			return queued{}, false
		}
		return takeAt(&q.events, i), true
	}
	// Changes that are newer than a snapshot must not overtake it.
	bulkMayGo := len(q.bulk) > 0 && q.resync() < 0
	switch {
	case bulkMayGo && (len(q.events) == 0 || q.overtaken >= maxOvertaking):
		q.overtaken = 0
		return takeAt(&q.bulk, 0), true
	case len(q.events) > 0:
		q.overtaken++
		return takeAt(&q.events, 0), true
	}
	return queued{}, false
}

// takeMore removes the next event if it may join the transaction of the bulk event taken before. n
// is the current size of the transaction.
func (q *queue) takeMore(n int) (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.followUps) > 0:
		if isBestEffort(q.followUps[0].event) {
			return takeAt(&q.followUps, 0), true
		}
	case n < maxBatch && len(q.events) == 0 && len(q.bulk) > 0 && isBulk(q.bulk[0].event):
		return takeAt(&q.bulk, 0), true
	}
	return queued{}, false
}

func isBestEffort(event Event) bool {
	update, ok := event.(UpdateEvent)
	return ok && event.Method() == Update && update.TransactionType() == BestEffort
}

// resync returns the index of the first DBResync, or -1.
func (q *queue) resync() int {
	return slices.IndexFunc(q.events, func(e queued) bool { _, ok := e.event.(*DBResync); return ok })
}

func takeAt(list *[]queued, i int) queued {
	e := (*list)[i]
	if i == 0 { // O(1), since many events may follow
		(*list)[0] = queued{}
		*list = (*list)[1:]
	} else {
		*list = slices.Delete(*list, i, i+1)
	}
	return e
}

// close refuses further events and returns the pending ones.
func (q *queue) close(reason error) []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = reason
	}
	rest := slices.Concat(q.followUps, q.events, q.bulk)
	q.followUps, q.events, q.bulk = nil, nil, nil
	return rest
}
