package ksr

import (
	"sync"
	"time"
)

// Reach tracks whether a source is connected. The zero value is reachable.
type Reach struct {
	mu sync.Mutex
	// lost is the reason why the source is unreachable, or nil.
	lost  error
	since time.Time
	// changed is closed by the next change. It is nil without waiters.
	changed chan struct{}
}

// ReachingSource is a Source that reports its reachability. Of several instances, one with a
// reachable source writes to the store.
type ReachingSource interface {
	Source
	Reach() *Reach
}

// Note records the reason why the source is unreachable, or nil.
func (r *Reach) Note(lost error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (lost == nil) == (r.lost == nil) {
		r.lost = lost
		return
	}
	r.lost, r.since = lost, time.Now()
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Lost returns the start and reason of unreachability, or nil. changed is closed on the next
// change.
func (r *Reach) Lost() (since time.Time, changed <-chan struct{}, lost error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.since, r.changed, r.lost
}
