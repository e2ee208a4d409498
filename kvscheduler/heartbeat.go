package kvscheduler

import (
	"fmt"
	"sync/atomic"
	"time"
)

// heartbeat is when the worker last got anywhere: when it began a job, or a call to the
// southbound returned or was given up.
type heartbeat struct {
	start time.Time // what the rest counts from
	last  atomic.Int64
}

const idle = -1

func newHeartbeat() *heartbeat {
	p := &heartbeat{start: time.Now()}
	p.last.Store(idle)
	return p
}

// at is the time as the heartbeat counts, more than 0.
func (h *heartbeat) at(t time.Time) time.Duration { return max(t.Sub(h.start), 1) }

// now is at(time.Now()), but reads one clock instead of two.
func (h *heartbeat) now() time.Duration { return max(time.Since(h.start), 1) }

func (h *heartbeat) beat(at time.Duration) { h.last.Store(int64(at)) }
func (h *heartbeat) stop()                 { h.last.Store(idle) }

// Stalled returns an error if there is work that did not get any further for longer
// than the limit. A call to the southbound counts for at most 1.5 times its deadline.
func (s *Scheduler) Stalled(limit time.Duration) error {
	last := s.heartbeat.last.Load()
	if last == idle {
		return nil
	}
	if waited := s.heartbeat.now() - time.Duration(last); waited > limit {
		return fmt.Errorf("the scheduler has not got any further for %v, %d transactions wait: the log says what it did last",
			waited.Round(time.Second), s.queue.length())
	}
	return nil
}
