package controller

import (
	"fmt"
	"sync"
	"time"
)

// maxQueued is how many events of each kind may wait.
const maxQueued = 1000

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
type queue struct {
	mu        sync.Mutex
	events    []queued
	followUps []queued
	closed    error
	// ready has an element when there may be something to take.
	ready chan struct{}
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push appends an event; it never waits. Events of the loop itself are exempt
// from the limit.
func (q *queue) push(e queued, limited bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := &q.events
	if e.followUp {
		list = &q.followUps
	}
	switch {
	case q.closed != nil:
		return q.closed
	case limited && len(*list) >= maxQueued:
		return fmt.Errorf("%w (%d events wait)", ErrQueueFull, len(*list))
	}
	*list = append(*list, e)
	q.wake()
	return nil
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes the next event that may be processed: a follow-up if there is
// one, else the oldest event, or, before the startup resync, the oldest
// DBResync.
func (q *queue) take(started bool) (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.followUps) > 0 {
		return takeAt(&q.followUps, 0), true
	}
	for i, e := range q.events {
		if _, resync := e.event.(*DBResync); started || resync {
			return takeAt(&q.events, i), true
		}
	}
	return queued{}, false
}

func takeAt(list *[]queued, i int) queued {
	e := (*list)[i]
	*list = append((*list)[:i], (*list)[i+1:]...)
	return e
}

// close refuses further events and returns those that still wait.
func (q *queue) close(reason error) []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = reason
	}
	rest := append(q.followUps, q.events...)
	q.followUps, q.events = nil, nil
	return rest
}
