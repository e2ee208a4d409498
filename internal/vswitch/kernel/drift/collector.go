package drift

import (
	"context"
	"time"
)

// coalesce is the collection time of a report.
const coalesce = 30 * time.Millisecond

// Collector collects notices and reports them.
type Collector struct {
	// Check passes the suspicions to all subsystems.
	Check func(*Batch)
	// Report is called with the reason and the sorted keys of wrong values. It must not block.
	Report func(reason string, keys ...string)

	notices chan Notice
}

// NewCollector returns a Collector. The caller runs it.
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
	for {
		b, ok := c.collect(ctx)
		if !ok {
			return
		}
		c.Check(b)
		if len(b.keys) > 0 {
			c.Report(b.text(), b.Keys()...)
		}
	}
}

// collect waits for a notice, and collects the ones that follow shortly after.
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
