package kvscheduler

import (
	"fmt"
	"sync/atomic"
	"time"
)

// heartbeat is the time of the worker's last progress: the start of a job, or the end of a call to the
// southbound.
type heartbeat struct {
	start time.Time // origin of the offsets
	last  atomic.Int64
}

const idle = -1

func newHeartbeat() *heartbeat {
	p := &heartbeat{start: time.Now()}
	p.last.Store(idle)
	return p
}

// at returns the offset of t from start, at least 1.
func (h *heartbeat) at(t time.Time) time.Duration { return max(t.Sub(h.start), 1) }

// now is at(time.Now()), but reads only the monotonic clock.
func (h *heartbeat) now() time.Duration { return max(time.Since(h.start), 1) }

func (h *heartbeat) beat(at time.Duration) { h.last.Store(int64(at)) }
func (h *heartbeat) stop()                 { h.last.Store(idle) }

// Stalled returns an error if the scheduler has work and made no progress for longer than limit. A
// hanging call to the southbound ends after 1.5 times Options.CallTimeout.
func (s *Scheduler) Stalled(limit time.Duration) error {
	last := s.heartbeat.last.Load()
	if last == idle {
		return nil
	}
	if waited := s.heartbeat.now() - time.Duration(last); waited > limit {
		return fmt.Errorf("the scheduler has made no progress for %v, with %d transactions queued: see its log",
			waited.Round(time.Second), s.queue.length())
	}
	return nil
}
