package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func eventsOf(events []StatusEvent) []string {
	var out []string
	for _, e := range events {
		line := fmt.Sprintf("#%d %s %v", e.Txn, e.Status.Value.Key, e.Status.Value.State)
		for _, d := range e.Status.DerivedValues {
			line += fmt.Sprintf(" %s %v", d.Key, d.State)
		}
		out = append(out, line)
	}
	return out
}

// W9: a watcher gets all changes in order, can resume, and gets an error if events were dropped. W20: watchers
// see a transaction as soon as Commit returns.
func TestW9W20WatchersLoseNothing(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, keyed: true})
	sb.register(s, "b", parts{prefix: "b/", depsOf: func(string, string) []Dependency { return []Dependency{on("a", "a/1")} }})
	mustCommit(t, s, "b/1=x")
	w, now := s.Watch("")
	if len(now) != 1 || now[0].Value.State != pb.ValueState_PENDING {
		t.Fatal(now)
	}
	start := w.Revision()
	sb.failNext("CREATE a/1/i", errBoom)
	_, _ = commit(t, s, "a/1=i")
	mustCommit(t, s, "a/1=i,j")
	mustCommit(t, s, "a/1=i,j") // no change
	mustCommit(t, s, "a/1")
	want := []string{
		"#1 a/1 CONFIGURED a/1/i FAILED", "#1 b/1 CONFIGURED",
		"#2 a/1 CONFIGURED a/1/i CONFIGURED a/1/j CONFIGURED",
		"#4 a/1 REMOVED", "#4 b/1 PENDING"}
	events, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, "events", eventsOf(events), want)
	events, _ = s.WatchFrom(start, "b/").Next(t.Context())
	wantList(t, "events of b", eventsOf(events), []string{want[1], want[4]})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got := make(chan []string)
	go func() { events, _ := w.Next(context.Background()); got <- eventsOf(events) }()
	mustCommit(t, s, "b/1")
	wantList(t, "awaited event", <-got, []string{"#5 b/1 REMOVED"})
	for i := range rememberedEvents/100 + 1 {
		txn := s.NewTransaction()
		for k := range 100 {
			txn.Put(fmt.Sprintf("a/x%d", k), val(fmt.Sprint(i)))
			if i%2 == 1 {
				txn.Delete(fmt.Sprintf("a/x%d", k))
			}
		}
		must(t, txn)
	}
	if _, err = w.Next(t.Context()); !errors.Is(err, ErrLostPlace) {
		t.Fatal(err)
	}
	_ = s.Close()
	w, _ = s.Watch("")
	if _, err = w.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestWaitSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		defer s.Close()
		sb.register(s, "a", parts{prefix: "a/", keyed: true})
		sb.register(s, "b", parts{prefix: "b/", depsOf: func(string, string) []Dependency { return []Dependency{on("a", "a/1")} }})
		sb.failNext("CREATE a/1", errBoom)
		sb.failNext("CREATE a/1", errBoom)
		_, err := s.NewTransaction().Put("a/1", val("x")).Put("b/1", val("x")).Commit(t.Context(), WithoutBlocking(), WithDefaultRetry())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		sts, err := s.WaitSettled(t.Context(), "a/1", "b/1")
		if err != nil || sts[1].Value.State != pb.ValueState_CONFIGURED || time.Since(start) != 3*time.Second {
			t.Fatal(sts, err, time.Since(start))
		}
		mustCommit(t, s, "a/1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sts, err = s.WaitSettled(ctx, "b/1", "a/1")
		if !errors.Is(err, context.DeadlineExceeded) || sts[0].Value.State != pb.ValueState_PENDING {
			t.Fatal(sts, err)
		}
	})
}

func TestValidateSemantically(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, invalid: "bad"})
	err := s.ValidateSemantically(t.Context(), KeyValue{Key: "a/1", Value: val("bad")}, KeyValue{Key: "a/2", Value: val("ok,bad")}, KeyValue{Key: "a/3", Value: val("ok")}, KeyValue{Key: "x", Value: nil})
	var keys []string
	for _, e := range errorsOf(err) {
		keys = append(keys, e.Key)
	}
	wantList(t, "invalid", keys, []string{"a/1", "a/1/bad", "a/2/bad"})
	if err := s.ValidateSemantically(t.Context(), KeyValue{Key: "a/3", Value: val("ok")}); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, sb)
}
