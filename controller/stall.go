package controller

import (
	"fmt"
	"sync"
	"time"
)

// How long the loop may stay where it is until the agent is no longer ready, and until
// only a restart may help. A call to the southbound is given up after 45 s.
const (
	stalledUnready = time.Minute
	stalledDead    = 3 * time.Minute
)

// pace is how the event loop gets along.
type pace struct {
	mu sync.Mutex
	// doing is its present activity and since when; "" if it waits for events.
	doing string
	since time.Time
}

// at records the loop's present activity.
func (p *pace) at(doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing, p.since = doing, time.Now()
}

// inScheduler is what the loop does while its transaction is executed: that may take
// long, and the scheduler is asked whether it gets any further.
const inScheduler = "scheduler"

// stalled returns an error if the loop, or the scheduler, did not get any further for
// longer than the limit.
func (c *Controller) stalled(limit time.Duration) error {
	if s, ok := c.scheduler.(interface{ Stalled(time.Duration) error }); ok {
		if err := s.Stalled(limit); err != nil {
			return err
		}
	}
	c.pace.mu.Lock()
	defer c.pace.mu.Unlock()
	if c.pace.doing == "" || c.pace.doing == inScheduler || time.Since(c.pace.since) <= limit {
		return nil
	}
	return fmt.Errorf("the event loop is stuck in %s for %v, %d events wait",
		c.pace.doing, time.Since(c.pace.since).Round(time.Second), c.queue.length())
}
