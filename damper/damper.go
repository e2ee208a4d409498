// Package damper slows down reports about what is wrong again and again: because a repair fails each
// time, because two parties undo each other's changes, or because a pod changes its own network without
// end, which must keep the agent neither from its work nor from repairing what is others'.
package damper

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// A key is reported at once so many times within the period. After that it waits for the pause, with
	// all others that wait.
	burst  = 5
	period = time.Minute
	pause  = 5 * time.Second
	// maxReasons bounds how many reasons a report gives.
	maxReasons = 3
)

// Damper passes reports on. It is safe for concurrent use.
type Damper struct {
	ctx    context.Context
	report func(reason string, keys ...string)

	mu sync.Mutex
	// recent are the times of the last reports of keys, at most burst of each.
	recent map[string][]time.Time
	// waiting are the reasons of the reports that wait, by key; there is a timer if there are any.
	waiting map[string]string
}

// New returns a Damper. report, which must not block, is called by Report, and by a goroutine until ctx
// ends.
func New(ctx context.Context, report func(reason string, keys ...string)) *Damper {
	return &Damper{ctx: ctx, report: report, recent: map[string][]time.Time{}, waiting: map[string]string{}}
}

// Report passes on what is wrong with values: at once those keys of which that was rarely said, and
// the others later.
func (d *Damper) Report(reason string, keys ...string) {
	if len(keys) == 0 {
		d.report(reason)
		return
	}
	if due := d.due(reason, keys); len(due) > 0 {
		d.report(reason, due...)
	}
}

// due notes the report of those keys that it returns, and has the others wait.
func (d *Damper) due(reason string, keys []string) (due []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.recent, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) > period })
	for _, key := range keys {
		if _, waits := d.waiting[key]; !waits && d.rare(key, now) {
			d.note(key, now)
			due = append(due, key)
			continue
		}
		if len(d.waiting) == 0 {
			time.AfterFunc(pause, d.release)
		}
		d.waiting[key] = reason
	}
	return due
}

// rare reports whether a key has been reported less than burst times within the period.
func (d *Damper) rare(key string, now time.Time) bool {
	times := d.recent[key]
	return len(times) < burst || now.Sub(times[0]) > period
}

func (d *Damper) note(key string, now time.Time) {
	times := append(d.recent[key], now)
	d.recent[key] = times[max(len(times)-burst, 0):]
}

// release reports what waits.
func (d *Damper) release() {
	if d.ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	waited := d.waiting
	d.waiting = map[string]string{}
	for key := range waited {
		d.note(key, time.Now())
	}
	d.mu.Unlock()
	reasons := slices.Compact(slices.Sorted(maps.Values(waited)))
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	d.report(strings.Join(reasons, "; "), slices.Sorted(maps.Keys(waited))...)
}
