package drift

import (
	"context"
	"maps"
	"slices"
	"time"
)

// coalesce is how long changes are collected before they are reported.
const coalesce = 30 * time.Millisecond

// Collector collects notices and reports them.
type Collector struct {
	// Check lets all subsystems look at their suspicions.
	Check func(*Batch)
	// Report is called with the reason and the sorted keys of wrong values.
	Report func(reason string, keys ...string)

	notices chan Notice
}

// NewCollector returns a Collector; Run it.
func NewCollector(check func(*Batch), report func(reason string, keys ...string)) *Collector {
	return &Collector{Check: check, Report: report, notices: make(chan Notice, 64)}
}

// Send adds a notice. It blocks while the Collector is busy, until ctx ends.
func (c *Collector) Send(ctx context.Context, n Notice) {
	select {
	case c.notices <- n:
	case <-ctx.Done():
	}
}

// Run returns when ctx ends.
func (c *Collector) Run(ctx context.Context) {
	damp := damper{}
	for {
		b, ok := c.collect(ctx)
		if !ok {
			return
		}
		c.Check(b)
		if len(b.keys) == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(damp.delay(b.keys, time.Now())):
			c.Report(b.text(), b.Keys()...)
		}
	}
}

// collect waits for a notice, and then for those that come along with it.
func (c *Collector) collect(ctx context.Context) (b *Batch, ok bool) {
	b = newBatch()
	select {
	case <-ctx.Done():
		return nil, false
	case n := <-c.notices:
		b.add(n)
	}
	quiet := time.NewTimer(coalesce)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case n := <-c.notices:
			b.add(n)
		case <-quiet.C:
			return b, true
		}
	}
}

// damper slows down reports about keys that are reported repeatedly: a repair that fails each time,
// or two parties that undo each other's changes.
type damper map[string][]time.Time

// Reports of the same keys, and the pause after so many within the period.
const (
	dampAfter  = 5
	dampPeriod = time.Minute
	dampPause  = 5 * time.Second
)

// delay notes a report and returns how long to wait before making it: not at all
// if any of its keys is reported rarely.
func (d damper) delay(keys map[string]struct{}, now time.Time) time.Duration {
	maps.DeleteFunc(d, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) > dampPeriod })
	pause := dampPause
	for key := range keys {
		recent := slices.DeleteFunc(d[key], func(at time.Time) bool { return now.Sub(at) > dampPeriod })
		if len(recent) < dampAfter {
			pause = 0
		}
		d[key] = append(recent, now)
	}
	return pause
}
