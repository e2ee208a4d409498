package health

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// badStates lists the states that are a problem at once. PENDING becomes one after pendingFor.
var badStates = []pb.ValueState{pb.ValueState_FAILED, pb.ValueState_RETRYING, pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED}

// pendingFor is how long a value may be PENDING.
const pendingFor = time.Minute

// Values checks for values that failed or cannot be configured, and for values PENDING for more
// than a minute.
func Values(s *kvscheduler.Scheduler) Check {
	w := &waiting{since: map[string]time.Time{}}
	return Check{Name: "values", Look: func(context.Context) []string { return w.look(s, time.Now()) }}
}

// waiting records since when values have been PENDING.
type waiting struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func (w *waiting) look(s *kvscheduler.Scheduler, now time.Time) (problems []string) {
	states := s.Stats().ValueStates
	found := map[pb.ValueState][]*kvscheduler.ValueSnapshot{}
	if states[pb.ValueState_PENDING.String()] > 0 || slices.ContainsFunc(badStates, func(state pb.ValueState) bool { return states[state.String()] > 0 }) {
		s.Snapshot().Ascend("", func(v *kvscheduler.ValueSnapshot) bool {
			if v.State == pb.ValueState_PENDING || slices.Contains(badStates, v.State) {
				found[v.State] = append(found[v.State], v)
			}
			return true
		})
	}
	for _, state := range badStates {
		if bad := found[state]; len(bad) > 0 {
			problems = append(problems, oneLine(fmt.Sprintf("%s %s, such as %s: %s", values(len(bad)), state, bad[0].Key, bad[0].Error)))
		}
	}
	return append(problems, w.pending(s, found[pb.ValueState_PENDING], now)...)
}

func (w *waiting) pending(s *kvscheduler.Scheduler, list []*kvscheduler.ValueSnapshot, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.since
	w.since = map[string]time.Time{}
	var long []string
	for _, v := range list {
		since, known := before[v.Key]
		if !known {
			since = now
			if txn := s.RecordedTxn(v.Txn); txn != nil {
				since = txn.Stop
			}
		}
		w.since[v.Key] = since
		if now.Sub(since) >= pendingFor {
			long = append(long, v.Key)
		}
	}
	if len(long) == 0 {
		return nil
	}
	for _, need := range s.Unmet(long[0]) {
		return []string{fmt.Sprintf("%s PENDING for more than a minute, such as %s, which waits for %s", values(len(long)), long[0], need.Name())}
	}
	return []string{fmt.Sprintf("%s PENDING for more than a minute, such as %s", values(len(long)), long[0])}
}

// DriftPrefix starts the descriptions of transactions that repair foreign changes.
const DriftPrefix = "drift: "

// A value repaired this often within this time counts as recurring drift.
const (
	driftTimes  = 3
	driftWithin = 10 * time.Minute
)

// Drift checks for values that were repaired repeatedly and still exist. owners returns a function
// that maps a key to its owner, such as a pod; all values of one owner are one problem. With "", a
// value stands for itself.
func Drift(s *kvscheduler.Scheduler, owners func() func(key string) string) Check {
	return Check{Name: "drift", Look: func(context.Context) []string {
		now := s.Snapshot()
		txns := s.History(time.Now().Add(-driftWithin), time.Time{})
		return recurring(txns, func(key string) bool { return now.Get(key) != nil }, owners())
	}}
}

// NoOwners is for Drift: each value stands for itself.
func NoOwners() func(key string) string { return func(string) string { return "" } }

func recurring(txns []*kvscheduler.RecordedTxn, exists func(key string) bool, owner func(key string) string) (problems []string) {
	times, last := map[string]int{}, map[string]*kvscheduler.RecordedTxn{}
	for _, txn := range txns {
		if !strings.HasPrefix(txn.Description, DriftPrefix) {
			continue
		}
		keys := map[string]bool{}
		for _, op := range txn.Executed {
			if !op.IsDerived && !op.NOOP && exists(op.Key) {
				keys[cmp.Or(owner(op.Key), op.Key)] = true
			}
		}
		for key := range keys {
			times[key]++
			last[key] = txn
		}
	}
	keys := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) })
	for i, key := range keys {
		if times[key] < driftTimes {
			break
		}
		if i == 3 {
			problems = append(problems, "and more values are repeatedly changed by other programs and repaired")
			break
		}
		problems = append(problems, oneLine(fmt.Sprintf("%s was repaired %d times in %d minutes, last in transaction #%d (%s): find the program that changes it",
			key, times[key], driftWithin/time.Minute, last[key].SeqNum, last[key].Description)))
	}
	return problems
}

func values(n int) string {
	if n == 1 {
		return "1 value is"
	}
	return fmt.Sprintf("%d values are", n)
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// States is a prometheus.Collector of the number of values in each state.
type States struct{ scheduler *kvscheduler.Scheduler }

func NewStates(s *kvscheduler.Scheduler) States { return States{s} }

var valuesDesc = prometheus.NewDesc("contiv_values", "Values by their state.", []string{"state"}, nil)

func (s States) Describe(out chan<- *prometheus.Desc) { out <- valuesDesc }

// Collect also reports states without values, as 0.
func (s States) Collect(out chan<- prometheus.Metric) {
	states := s.scheduler.Stats().ValueStates
	for number, name := range pb.ValueState_name {
		if pb.ValueState(number) != pb.ValueState_NONEXISTENT {
			out <- prometheus.MustNewConstMetric(valuesDesc, prometheus.GaugeValue, float64(states[name]), name)
		}
	}
}
