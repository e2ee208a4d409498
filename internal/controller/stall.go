package controller

import (
	"fmt"
	"sync"
	"time"
)

// How long the loop may stay in one step before the agent is unready, and before it must be
// restarted. A southbound call times out after 45 s.
const (
	stalledUnready = time.Minute
	stalledDead    = 3 * time.Minute
)

// progress records the current step of the event loop.
type progress struct {
	mu sync.Mutex
	// doing is the current step; "" while the loop waits for events.
	doing string
	since time.Time
}

func (p *progress) at(doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing, p.since = doing, time.Now()
}

// inScheduler is the step of a running transaction. It may take long; the scheduler reports its own
// progress.
const inScheduler = "scheduler"

// stalled returns an error if the loop or the scheduler made no progress for longer than the limit.
func (c *Controller) stalled(limit time.Duration) error {
	if s, ok := c.scheduler.(interface{ Stalled(time.Duration) error }); ok {
		if err := s.Stalled(limit); err != nil {
			return err
		}
	}
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	if c.progress.doing == "" || c.progress.doing == inScheduler || time.Since(c.progress.since) <= limit {
		return nil
	}
	return fmt.Errorf("the event loop has been stuck in %s for %v; %d events are waiting",
		c.progress.doing, time.Since(c.progress.since).Round(time.Second), c.queue.length())
}
