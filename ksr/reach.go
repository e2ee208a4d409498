package ksr

import (
	"sync"
	"time"
)

// Reach tracks whether a source can reach the place it reads from. The zero value is reachable.
type Reach struct {
	mu sync.Mutex
	// lost is nil while the place is reachable.
	lost  error
	since time.Time
	// changed is closed by the next change; nil while nobody waits.
	changed chan struct{}
}

// ReachingSource is a Source that knows whether it can reach the place it reads from. Of several
// instances, one with a reachable source writes to the store.
type ReachingSource interface {
	Source
	Reach() *Reach
}

// Note records the reason why the place is unreachable; nil: it is reachable.
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

// Lost returns since when the place has been unreachable, and why; nil if it is reachable. changed is
// closed when that changes.
func (r *Reach) Lost() (since time.Time, changed <-chan struct{}, lost error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.since, r.changed, r.lost
}
