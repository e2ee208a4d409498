package controller

import (
	"context"
	"fmt"
	"time"
)

// timers of the loop
type timers struct {
	startup  *time.Timer
	healing  *time.Timer
	periodic *time.Ticker
	trim     *time.Ticker
	// healingError is the error that caused the next healing resync.
	healingError error
	// failed is the time of the last failed healing, due the time of the next one. unwatch stops
	// watchForChange.
	failed, due time.Time
	unwatch     context.CancelFunc
}

func (c *Controller) run() {
	defer close(c.loopDone)
	c.timers.startup = time.NewTimer(c.cfg.StartupResyncDeadline.Std())
	c.timers.healing = time.NewTimer(time.Hour)
	c.timers.healing.Stop()
	c.timers.periodic = time.NewTicker(time.Hour)
	c.timers.periodic.Stop()
	c.timers.trim = time.NewTicker(historyTrimInterval)
	c.timers.unwatch = func() {}
	defer func() {
		c.timers.startup.Stop()
		c.timers.healing.Stop()
		c.timers.periodic.Stop()
		c.timers.trim.Stop()
		c.timers.unwatch()
		c.end(ErrClosed)
	}()

	for {
		if c.ctx.Err() != nil {
			return
		}
		if q, ok := c.queue.take(c.health.started()); ok {
			err := c.process(q)
			c.progress.at("")
			if err != nil {
				c.abort(err)
				return
			}
			if c.loop.shutdown {
				return
			}
			continue
		}
		select {
		case <-c.queue.ready:
		case <-c.ctx.Done():
			return
		case <-c.timers.startup.C:
			if !c.health.started() {
				c.abort(fmt.Errorf("%w within the first %v, and this node has no local mirror: check that etcd runs and is reachable",
					ErrNoStartupResync, c.cfg.StartupResyncDeadline))
				return
			}
		case <-c.changed:
			c.advanceHealing()
		case <-c.timers.healing.C:
			c.timers.unwatch()
			c.pushInternal(&HealingResync{Type: AfterError, Error: c.timers.healingError})
		case <-c.timers.periodic.C:
			if !c.loop.periodic {
				c.loop.periodic = true
				c.pushInternal(&HealingResync{Type: Periodic})
			}
		case now := <-c.timers.trim.C:
			c.history.trim(now)
		}
	}
}

// pushInternal queues an event of the loop itself.
func (c *Controller) pushInternal(event Event) {
	_ = c.queue.push(queued{event: event, enqueued: time.Now()}, false) // fails only after the end
}

// Limits of the delay after a failed healing, unless delayAfterErrorHealing is longer: without and
// with changes in the network.
const (
	longestHealingDelay = 5 * time.Minute
	promptHealingDelay  = 30 * time.Second
)

// scheduleHealing schedules a healing resync; a pending one keeps its error. After a failed healing
// the agent is not ready and retries with increasing delays, or earlier after a change.
func (c *Controller) scheduleHealing(err error) {
	if c.loop.healing {
		return
	}
	delay := c.cfg.DelayAfterErrorHealing.Std()
	for range c.loop.failedHealings {
		if delay *= 2; delay >= longestHealingDelay {
			delay = max(longestHealingDelay, c.cfg.DelayAfterErrorHealing.Std())
			break
		}
	}
	c.loop.healing = true
	c.timers.healingError = err
	c.timers.healing.Reset(delay)
	c.log.Warn("Healing resync scheduled", "delay", delay, "error", err)
	if c.loop.failedHealings > 0 {
		c.timers.failed, c.timers.due = time.Now(), time.Now().Add(delay)
		c.watchForChange()
	}
}

// watchForChange starts a goroutine that calls Changed when a value has changed. It ends then, or
// with timers.unwatch.
func (c *Controller) watchForChange() {
	s, ok := c.scheduler.(interface{ AwaitChange(context.Context) error })
	if !ok {
		return
	}
	c.timers.unwatch()
	ctx, cancel := context.WithCancel(c.ctx)
	c.timers.unwatch = cancel
	go func() {
		if s.AwaitChange(ctx) == nil {
			c.Changed()
		}
	}()
}

// Changed reports a change outside of values, e.g. of a device of the host. It may let a failed
// healing succeed. Safe for concurrent use.
func (c *Controller) Changed() {
	select {
	case c.changed <- struct{}{}:
	default: // the last change is still pending
	}
}

// advanceHealing moves a pending healing forward after a change, if it follows a failed one.
func (c *Controller) advanceHealing() {
	if !c.loop.healing || c.loop.failedHealings == 0 {
		return
	}
	delay := max(c.cfg.DelayAfterErrorHealing.Std(), time.Until(c.timers.failed.Add(promptHealingDelay)))
	if delay >= time.Until(c.timers.due) {
		return
	}
	c.timers.due = time.Now().Add(delay)
	c.timers.healing.Reset(delay)
	c.log.Info("Healing resync moved forward after a change", "delay", delay.Round(time.Millisecond))
}
