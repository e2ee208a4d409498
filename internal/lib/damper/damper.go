// Package damper delays repeated drift reports of the same key.
//
// A key may be reported five times a minute without delay. Further reports are merged and delivered
// every five seconds. So a repair that always fails, or a process that keeps undoing our changes,
// does not occupy the scheduler.
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
	// A key may be reported burst times per period without delay. Further reports are merged and
	// delivered after pause.
	burst  = 5
	period = time.Minute
	pause  = 5 * time.Second
	// maxReasons limits the reasons in a merged report.
	maxReasons = 3
)

// Damper forwards reports. It is safe for concurrent use.
type Damper struct {
	ctx    context.Context
	report func(reason string, keys ...string)

	mu sync.Mutex
	// recent holds the times of the last reports of each key, at most burst.
	recent map[string][]time.Time
	// waiting holds the reasons of delayed reports by key. A timer runs while it is not empty.
	waiting map[string]string
}

// New returns a Damper that calls report, which must not block. After ctx ends, delayed reports are
// dropped.
func New(ctx context.Context, report func(reason string, keys ...string)) *Damper {
	return &Damper{ctx: ctx, report: report, recent: map[string][]time.Time{}, waiting: map[string]string{}}
}

// Report reports the keys with the reason: at once, or later for keys reported too often.
func (d *Damper) Report(reason string, keys ...string) {
	if len(keys) == 0 {
		d.report(reason)
		return
	}
	if due := d.due(reason, keys); len(due) > 0 {
		d.report(reason, due...)
	}
}

// due returns the keys to report now and delays the others.
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

// rare reports whether a key was reported less than burst times within the period.
func (d *Damper) rare(key string, now time.Time) bool {
	times := d.recent[key]
	return len(times) < burst || now.Sub(times[0]) > period
}

func (d *Damper) note(key string, now time.Time) {
	times := append(d.recent[key], now)
	d.recent[key] = times[max(len(times)-burst, 0):]
}

// release delivers the delayed reports.
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
