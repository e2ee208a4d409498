package damper

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// recorder records the reports of a Damper with their times.
type recorder struct {
	start time.Time
	list  []string
}

func (r *recorder) report(reason string, keys ...string) {
	r.list = append(r.list, fmt.Sprintf("%v %s %v", time.Since(r.start), reason, keys))
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(r.list, want) {
		t.Errorf("reported %q, want %q", r.list, want)
	}
	r.list, r.start = nil, time.Now()
}

// Frequent reports of one key are delayed; rare ones in the same call are not.
func TestDamper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		d := New(t.Context(), r.report)
		for range burst {
			d.Report("down", "a", "b")
		}
		r.want(t, "0s down [a b]", "0s down [a b]", "0s down [a b]", "0s down [a b]", "0s down [a b]")
		d.Report("down", "a")
		d.Report("gone", "b", "c")
		d.Report("renamed", "a")
		d.Report("lost", "d")
		r.want(t, "0s gone [c]", "0s lost [d]")
		time.Sleep(time.Minute)
		r.want(t, "5s gone; renamed [a b]")
		for range 600 { // a pod that never stops
			d.Report("down", "a")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(pause) // for the last report
		synctest.Wait()
		if n := len(r.list); n < 12 || n > 20 {
			t.Errorf("%d reports in a minute, want a few at once, and then one in five seconds", n)
		}
		r.list = nil
		time.Sleep(2 * period)
		r.want(t)
		d.Report("down", "a")
		r.want(t, "0s down [a]")
		if len(d.recent) != 1 {
			t.Errorf("%d keys are remembered, want the last", len(d.recent))
		}
	})
}

func TestManyReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		d := New(ctx, r.report)
		keys := []string{"a", "b", "c", "d", "e"}
		for range burst {
			d.Report("x", keys...)
		}
		r.list = nil
		for _, key := range keys {
			d.Report("reason "+key, key)
		}
		time.Sleep(pause)
		r.want(t, "5s reason a; reason b; reason c; and 2 more [a b c d e]")
		d.Report("everything may be wrong")
		r.want(t, "0s everything may be wrong []")
		d.Report("x", "a")
		cancel()
		time.Sleep(pause)
		r.want(t)
	})
}
