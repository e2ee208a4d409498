package ksr

import (
	"sync"
	"time"
)

// Reach reports whether a source can reach what it reads from. In the zero value, it can.
type Reach struct {
	mu sync.Mutex
	// lost is nil while it can be reached.
	lost  error
	since time.Time
	// changed is closed by the next change; nil while nobody waits for it.
	changed chan struct{}
}

// ReachingSource is a Source that knows if it can reach what it reads from. Of
// several instances, one whose source can writes to the store.
type ReachingSource interface {
	Source
	Reach() *Reach
}

// Note takes why it cannot be reached; nil: it can.
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

// Lost returns since when it cannot be reached, and why; nil: it can. changed is
// closed when that changes.
func (r *Reach) Lost() (since time.Time, changed <-chan struct{}, lost error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.since, r.changed, r.lost
}
