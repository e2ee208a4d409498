package controller

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxQueued is how many events of each lane may wait.
	maxQueued = 8192
	// maxBatch is how many events may share a transaction.
	maxBatch = 512
	// maxOvertaking is how many events may overtake bulk in a row.
	maxOvertaking = 16
)

// queued is an event that waits.
type queued struct {
	event    Event
	enqueued time.Time
	// followUp says that the event was sent by a handler, followUpTo while
	// which event was processed.
	followUp   bool
	followUpTo uint64
}

// queue holds the events that wait to be processed. Senders may be many, the
// event loop is the only one that takes.
//
// It has three lanes, each first in, first out: follow-ups, which precede everything else; bulk,
// which are database changes without a waiting caller, and resyncs requested after them; and all
// other events, which overtake bulk. A pod therefore does not wait for its network until a thousand
// Kubernetes changes have been processed.
type queue struct {
	mu        sync.Mutex
	followUps []queued
	events    []queued
	bulk      []queued
	closed    error
	// overtaken counts how often bulk had to wait.
	overtaken int
	// ready has an element when there may be something to take.
	ready chan struct{}
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push appends an event; it never waits. Events of the loop itself are not
// limited. A snapshot of the database makes the changes before it obsolete.
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
		return fmt.Errorf("%w (%d events wait)", ErrQueueFull, len(*list))
	}
	if resync, ok := e.event.(*DBResync); ok && !resync.Local {
		q.bulk = slices.DeleteFunc(q.bulk, func(e queued) bool { return isBulk(e.event) }) // none of their senders waits
	}
	*list = append(*list, e)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

// length is how many events wait.
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

// isRequested reports whether the event is a resync that must not overtake changes in the
// database: whoever requested it may have made them.
func isRequested(event Event) bool {
	_, ok := event.(*RequestedResync)
	return ok
}

// take removes the next event. Before the startup resync this can only be a
// DBResync, or a follow-up.
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

// takeMore removes the next event if it may share the transaction of bulk
// that was taken before, n events in total.
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

// resync returns the place of the first DBResync, -1 if there is none.
func (q *queue) resync() int {
	return slices.IndexFunc(q.events, func(e queued) bool { _, ok := e.event.(*DBResync); return ok })
}

func takeAt(list *[]queued, i int) queued {
	e := (*list)[i]
	if i == 0 { // many may follow
		(*list)[0] = queued{}
		*list = (*list)[1:]
	} else {
		*list = slices.Delete(*list, i, i+1)
	}
	return e
}

// close refuses further events and returns those that still wait.
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
