package kvscheduler

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Regression tests for W1–W25, the known weaknesses of the ligato KVScheduler. Other ones: W2 in
// notification_test.go; W8, W11, W16 and W22 in engine_test.go; W9 and W20 in watch_test.go; W13 in
// graph/graph_test.go; W24 in timetravel_test.go. W4 to W7 concern cost, and are benchmarks that must not
// grow faster than linearly: BenchmarkResyncWithoutDifferences, BenchmarkPlanOne, BenchmarkRevert and
// BenchmarkCreate. W18 and W19 concern descriptors of other packages.

// W1: dependencies with the same label are distinct.
func TestW1DependenciesMayShareALabel(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	sb.register(s, "b", parts{prefix: "b/", deps: map[string][]Dependency{"b/1": {on("path", "a/1"), on("path", "a/2"), on("other", "a/3")}}})
	mustCommit(t, s, "b/1=x a/2=x")
	wantState(t, s, "b/1", pb.ValueState_PENDING, "path (a/1)", "other")
	mustCommit(t, s, "a/1=x a/3=x")
	wantState(t, s, "b/1", pb.ValueState_CONFIGURED)
	mustCommit(t, s, "a/2")
	wantState(t, s, "b/1", pb.ValueState_PENDING, "path (a/2)")
}

// W3, W23: a failed value causes the read of that value only.
func TestW3W23FailureReadsItsKeyOnly(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true})
	sb.register(s, "b", parts{prefix: "b/", keyed: true, retrieve: true})
	mustCommit(t, s, "a/1=x a/2=x a/3=x b/1=x")
	sb.take()
	sb.failNext("UPDATE a/2", errBoom)
	_, _ = commit(t, s, "a/1=y a/2=y a/3=y")
	wantCalls(t, sb, "UPDATE a/1", "UPDATE a/2", "UPDATE a/3", "RETRIEVE a/2")
}

// W10: callbacks never run concurrently, as in the ligato KVScheduler.
func TestW10CallbacksNeverRunConcurrently(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true})
	var busy sync.Mutex
	sb.hook = func(call string) {
		if !busy.TryLock() {
			t.Errorf("%s runs concurrently", call)
		}
		time.Sleep(10 * time.Microsecond)
		busy.Unlock()
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 20 {
				_, _ = commit(t, s, fmt.Sprintf("a/%d=%d", i, k))
				_, _ = s.Verify(t.Context(), "a/0")
				_, _ = s.Dump(t.Context(), SBView, DumpFilter{})
			}
		})
	}
	wg.Wait()
}

// W12: a downstream resync before the first request deletes the remains of an earlier process.
func TestW12DownstreamResyncWithLeftovers(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true, derive: true})
	leftovers(sb, "a/1", "i", "a/1/i", "i")
	mustCommit(t, s, "", WithResync(DownstreamResync))
	wantCalls(t, sb, "RETRIEVE a", "DELETE a/1/i", "DELETE a/1")
}

func metric(t *testing.T, r *prometheus.Registry, name string) (sum float64, m []*dto.Metric) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
			return sum, f.Metric
		}
	}
	return 0, nil
}

// W14: the queue wait of a retry starts when the retry is queued.
func TestW14QueueWaitOfRetriesStartsWhenTheyAreQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s, sb := newScheduler(t, func(o *Options) { o.Metrics = reg }), newSouthbound(t)
		sb.failNext("CREATE a/1", errBoom)
		mustCommit(t, s, "a/1=x", WithRetry(Retry{Period: time.Hour}))
		sb.register(s, "a", parts{prefix: "a/"})
		settle(t, s)
		time.Sleep(2 * time.Hour)
		settle(t, s)
		wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
		_, waits := metric(t, reg, "ligato_kvscheduler_queue_wait_seconds")
		if len(waits) != 3 { // transaction, unimplemented, retry
			t.Fatal(waits)
		}
		for _, m := range waits {
			if m.GetHistogram().GetSampleSum() > 1 {
				t.Errorf("wait of %v", m)
			}
		}
		_ = s.Close()
	})
}

// W15: Close while retries are due neither races nor leaks. TestMain detects leaks.
func TestW15CloseWhileRetriesAreDue(t *testing.T) {
	for range 50 {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/"})
		for range 20 {
			sb.failNext("CREATE a/1", errBoom)
		}
		_, _ = commit(t, s, "a/1=x", WithRetry(Retry{Period: 50 * time.Microsecond}))
		time.Sleep(50 * time.Microsecond)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal("second Close:", err)
		}
	}
}

// W17: two schedulers share nothing.
func TestW17MetricsArePerScheduler(t *testing.T) {
	one, two := prometheus.NewRegistry(), prometheus.NewRegistry()
	a, sa := newScheduler(t, func(o *Options) { o.Metrics = one }), newSouthbound(t)
	b, _ := newScheduler(t, func(o *Options) { o.Metrics = two }), newSouthbound(t)
	sa.register(a, "a", parts{prefix: "a/"})
	mustCommit(t, a, "a/1=x a/2=x")
	if n, _ := metric(t, one, "ligato_kvscheduler_operations"); n != 2 {
		t.Fatalf("%v operations", n)
	}
	if n, _ := metric(t, one, "ligato_kvscheduler_values"); n != 2 {
		t.Fatalf("%v values", n)
	}
	if n, _ := metric(t, two, "ligato_kvscheduler_operations"); n != 0 {
		t.Fatalf("%v operations of the other", n)
	}
	_, _ = b, sa
	_ = a.Close()
	if families, _ := one.Gather(); len(families) != 0 {
		t.Fatal("metrics are left after Close")
	}
}

// W21: a dense graph takes polynomial time: every value needs all others and a missing one.
func TestW21DenseCyclesTakePolynomialTime(t *testing.T) {
	const n = 60
	s, sb := newScheduler(t), newSouthbound(t)
	deps := map[string][]Dependency{}
	values := ""
	for i := range n {
		key := fmt.Sprintf("a/%02d", i)
		values += " " + key + "=x"
		for j := range n {
			deps[key] = append(deps[key], on(fmt.Sprint(j), fmt.Sprintf("a/%02d", j)))
		}
	}
	deps["a/30"] = append(deps["a/30"], on("last", "a/last"))
	sb.register(s, "a", parts{prefix: "a/", deps: deps})
	start := time.Now()
	mustCommit(t, s, values)
	wantCalls(t, sb)
	mustCommit(t, s, "a/last=x")
	if calls := sb.take(); len(calls) != n+1 {
		t.Fatalf("%d calls", len(calls))
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Fatalf("took %v", d)
	}
}

// W25: the origin of a value does not depend on the history.
func TestW25OriginDoesNotDependOnHistory(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		s, sb := newScheduler(t, func(o *Options) { o.History.Disabled = disabled }), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", retrieve: true})
		if _, err := s.NewTransaction().Put("a/1", val("x")).Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewTransaction().Delete("a/1").Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		sb.set("a/1", "x") // a former key: FromNB
		sb.set("a/2", "x") // never requested: FromSB
		sb.take()
		if _, err := s.NewTransaction().Commit(t.Context(), WithResync(FullResync)); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, sb, "RETRIEVE a", "DELETE a/1")
		wantState(t, s, "a/2", pb.ValueState_OBTAINED)
		if got := len(s.History(noTime, noTime)); disabled && got != 0 {
			t.Fatalf("%d records", got)
		}
		if _, err := s.graphAt(time.Now()); disabled && !errors.Is(err, ErrNotRecorded) {
			t.Fatal(err)
		}
	}
}
