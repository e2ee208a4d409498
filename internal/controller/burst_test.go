package controller_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
)

func change(i int) *controller.KubeStateChange {
	return &controller.KubeStateChange{Resource: "pod", Key: fmt.Sprintf("%03d", i), NewValue: &pod.Pod{Name: fmt.Sprint(i)}}
}

// burst queues events while the loop is blocked by the test.
func (r *rig) burst(events ...controller.Event) {
	r.t.Helper()
	for _, e := range events {
		if err := r.PushEvent(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// hold blocks the loop in an event until release is called, so that a burst waits in the queue.
func (r *rig) hold() (release func()) {
	r.t.Helper()
	held := make(chan struct{})
	before := r.a.update
	r.a.update = func(ctx context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
		if e.Name() == "hold" {
			<-held
			return "", nil
		}
		if before != nil {
			return before(ctx, e, txn)
		}
		return "", nil
	}
	r.push(&note{name: "hold"})
	return func() {
		close(held)
		synctest.Wait()
	}
}

func podHandler(_ context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
	if c, ok := e.(*controller.KubeStateChange); ok {
		txn.Put("if/"+c.Key, iface(c.Key))
		return "pod " + c.Key, nil
	}
	return "", nil
}

func changes(from, to int) (events []controller.Event) {
	for i := from; i < to; i++ {
		events = append(events, change(i))
	}
	return events
}

func TestBurstIsCoalesced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.update = podHandler
		r.started()
		n := len(r.sched.txns)
		release := r.hold()
		r.burst(changes(0, 600)...)
		release()
		if got := len(r.sched.txns) - n; got != 2 {
			t.Errorf("%d transactions, want 512+88 changes in 2", got)
		}
		if len(r.sched.values) != 600 {
			t.Errorf("%d values", len(r.sched.values))
		}
		txn := r.sched.lastTxn()
		if want := "Kubernetes State Change (88 events, #514 to #601)\n* b: pod 512\n"; !strings.HasPrefix(txn.Description, want) {
			t.Errorf("description: %q", txn.Description)
		}
		records := r.History(time.Time{}, time.Time{})
		if len(records) != 602 {
			t.Fatalf("%d events recorded", len(records))
		}
		for _, record := range records[514:] {
			if record.Txn == nil || record.Txn.SeqNum != records[601].Txn.SeqNum {
				t.Errorf("#%d does not lead to its transaction", record.SeqNum)
			}
		}
		logged := regexp.MustCompile(`Event processed.*Kubernetes State Change.*events=(\d+)`).FindAllStringSubmatch(r.log.String(), -1)
		if len(logged) != 2 || logged[0][1] != "512" || logged[1][1] != "88" {
			t.Errorf("logged: %q, want a line for each transaction", logged)
		}
	})
}

func TestBlockingEventsOvertakeBulk(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		release := r.hold()
		r.burst(changes(0, 3)...)
		r.burst(newEvent("Add Pod"), change(3))
		release()
		r.wantHistory("Database Resync", "hold", "Add Pod", "Kubernetes State Change", "Kubernetes State Change", "Kubernetes State Change", "Kubernetes State Change")
	})
}

func TestBulkIsNotStarved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		release := r.hold()
		r.burst(change(0))
		for range 40 {
			r.burst(newEvent("Add Pod"))
		}
		release()
		if i := slices.Index(r.history(), "Kubernetes State Change"); i < 10 || i > 20 {
			t.Errorf("the change comes as event %d", i)
		}
	})
}

func TestSnapshotMakesWaitingChangesObsolete(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		release := r.hold()
		r.burst(change(0), change(1), &controller.DBResync{}, change(2))
		for range 20 {
			r.burst(&note{name: "n"})
		}
		release()
		history := r.history()
		if i := slices.Index(history, "Kubernetes State Change"); i < slices.Index(history[1:], "Database Resync") {
			t.Errorf("a change that is newer than the snapshot came before it: %q", history)
		}
		if n := strings.Count(strings.Join(history, "\n"), "Kubernetes State Change"); n != 1 {
			t.Errorf("%d changes were processed", n)
		}
	})
}

// A resync requested after changes is processed after them, in a transaction of its own.
func TestRequestedResyncsKeepTheirPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		var received []string
		requested := func() controller.Event {
			return &controller.RequestedResync{Type: controller.UpstreamResync, By: "me", Processed: func(*controller.EventRecord) { received = append(received, "requested") }}
		}
		names := func() (names []string) {
			for _, record := range r.History(time.Time{}, time.Time{}) {
				names = append(names, record.Name)
			}
			return names
		}
		release := r.hold()
		r.burst(change(1), change(2), requested(), change(3), &note{name: "note"})
		release()
		want := []string{"Database Resync", "hold", "note", "Kubernetes State Change", "Kubernetes State Change", "Requested Resync", "Kubernetes State Change"}
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		// A snapshot makes queued changes obsolete, but not requested resyncs.
		release = r.hold()
		r.burst(change(4), requested(), &controller.DBResync{})
		release()
		want = append(want, "hold", "Database Resync", "Requested Resync")
		if got := names(); !slices.Equal(got, want) || len(received) != 2 {
			t.Errorf("events %q, want %q; notified %q", got, want, received)
		}
	})
}

func TestFollowUpsOfABurstComeRightAfterTheirEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.b.update = func(ctx context.Context, e controller.Event, _ controller.UpdateOperations) (string, error) {
			c, ok := e.(*controller.KubeStateChange)
			if !ok {
				return "", nil
			}
			if c.Key == "001" {
				return "", r.PushEvent(ctx, &controller.ExternalConfigResync{Source: "db"}) // not an update: ends the batch
			}
			return "", r.PushEvent(ctx, &note{name: "after " + c.Key})
		}
		release := r.hold()
		r.burst(changes(0, 3)...)
		release()
		r.wantHistory("Database Resync", "hold", "Kubernetes State Change", "after 000", "Kubernetes State Change", "External Config Resync", "Kubernetes State Change", "after 002")
		record := r.lastRecord()
		if !record.IsFollowUp || record.FollowUpTo != record.SeqNum-1 {
			t.Errorf("got %+v", record)
		}
	})
}

func TestAbortedEventOfABurstTakesNoOtherWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.b.update = podHandler
		r.c.update = func(_ context.Context, e controller.Event, _ controller.UpdateOperations) (string, error) {
			if c, ok := e.(*controller.KubeStateChange); ok && c.Key == "001" {
				return "", controller.NewAbortEventError(errors.New("no"))
			}
			return "", nil
		}
		release := r.hold()
		r.burst(changes(0, 3)...)
		release()
		if r.GetConfig("if/000") == nil || r.GetConfig("if/001") != nil || r.GetConfig("if/002") == nil {
			t.Errorf("values: %v", r.sched.values)
		}
		r.after(6 * time.Second)
		if r.lastRecord().Name != "Healing Resync" {
			t.Error("no healing")
		}
	})
}

// EndBulk runs once for several changes, in their transaction.
func TestEndOfABurst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		var left []string
		ends := 0
		r.b.update = func(_ context.Context, e controller.Event, _ controller.UpdateOperations) (string, error) {
			if c, ok := e.(*controller.KubeStateChange); ok {
				left = append(left, c.Key)
			}
			return "", nil
		}
		r.b.endBulk = func(_ context.Context, txn controller.UpdateOperations) (string, error) {
			ends++
			for _, key := range left {
				txn.Put("if/"+key, iface(key))
			}
			left = nil
			return "all", nil
		}
		abort := ""
		r.c.update = func(_ context.Context, e controller.Event, _ controller.UpdateOperations) (string, error) {
			if c, ok := e.(*controller.KubeStateChange); ok && c.Key == abort {
				return "", controller.NewAbortEventError(errors.New("no"))
			}
			return "", nil
		}
		release := r.hold()
		r.burst(changes(0, 3)...)
		release()
		if ends != 1 || len(r.sched.values) != 3 || !strings.Contains(r.sched.lastTxn().Description, "* b: all") {
			t.Errorf("%d ends, values %v, %q", ends, r.sched.values, r.sched.lastTxn().Description)
		}
		r.burst(change(3))
		if ends != 2 || r.sched.values["if/003"] == nil {
			t.Errorf("%d ends, values %v", ends, r.sched.values)
		}
		// Changes before an aborted event are still committed.
		abort = "005"
		release = r.hold()
		r.burst(changes(4, 6)...)
		release()
		if ends != 3 || r.sched.values["if/004"] == nil {
			t.Errorf("%d ends, values %v", ends, r.sched.values)
		}
		if r.burst(newEvent("Add Pod")); ends != 3 {
			t.Error("an event that is no change of the database ended some")
		}
		r.b.endBulk = func(context.Context, controller.UpdateOperations) (string, error) { panic("no") }
		abort = ""
		r.burst(change(6))
		r.after(6 * time.Second)
		if r.lastRecord().Name != "Healing Resync" {
			t.Error("no healing")
		}
	})
}

func TestFailedTransactionOfABurstIsHealedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.b.update = podHandler
		r.sched.fail = failKey("if/001")
		release := r.hold()
		r.burst(changes(0, 3)...)
		release()
		r.sched.fail = nil
		r.after(time.Minute)
		if n := strings.Count(strings.Join(r.history(), "\n"), "Healing Resync"); n != 1 {
			t.Errorf("%d healings", n)
		}
	})
}

func TestBatchingDoesNotChangeTheOutcome(t *testing.T) {
	outcome := func(batched bool) (keys []string) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.started()
			r.b.update = func(_ context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
				c, ok := e.(*controller.KubeStateChange)
				if !ok {
					return "", nil
				}
				if c.NewValue == nil {
					txn.Delete("if/" + c.Key)
					return "", nil
				}
				name := c.Key
				if previous := r.GetConfig("if/" + c.Key); previous != nil {
					name += "again"
				}
				txn.Put("if/"+c.Key, iface(name))
				return "", nil
			}
			var events []controller.Event
			for i := range 200 {
				c := change(i * 7 % 20)
				if i%3 == 0 {
					c.PrevValue, c.NewValue = c.NewValue, nil
				}
				events = append(events, c)
			}
			if batched {
				release := r.hold()
				r.burst(events...)
				release()
			} else {
				for _, e := range events {
					r.push(e)
				}
			}
			for key, value := range r.sched.values {
				keys = append(keys, fmt.Sprint(key, value))
			}
			if got := len(r.sched.txns); batched != (got < 20) {
				t.Errorf("batched %v: %d transactions", batched, got)
			}
		})
		slices.Sort(keys)
		return keys
	}
	if one, many := outcome(false), outcome(true); !slices.Equal(one, many) {
		t.Errorf("one by one: %v\nbatched: %v", one, many)
	}
}

// BenchmarkBurst measures the time from the first of n changes to the end of the last one.
func BenchmarkBurst(b *testing.B) {
	for _, n := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := controller.DefaultConfig()
			cfg.RecordEventHistory = false
			c := controller.New(controller.Options{Config: cfg, Scheduler: nullScheduler{}, Log: silentLog})
			h := &benchHandler{last: fmt.Sprintf("%03d", n-1), done: make(chan struct{}, 1)}
			c.Register(h)
			c.Start()
			defer c.Close(b.Context())
			push := func(e controller.Event) {
				if err := c.PushEvent(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
			push(&controller.DBResync{})
			for b.Loop() {
				for i := range n {
					push(change(i))
				}
				<-h.done
			}
		})
	}
}

type nullScheduler struct{}

func (nullScheduler) Commit(context.Context, controller.SchedulerTxn) (controller.TxnResult, error) {
	return controller.TxnResult{SeqNum: kvscheduler.NoSeqNum}, nil
}

type benchHandler struct {
	last string
	done chan struct{}
}

func (*benchHandler) String() string                     { return "bench" }
func (*benchHandler) HandlesEvent(controller.Event) bool { return true }
func (*benchHandler) Resync(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
	return nil
}
func (h *benchHandler) Update(ctx context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
	if c, ok := e.(*controller.KubeStateChange); ok && c.Key == h.last {
		h.done <- struct{}{}
	}
	return podHandler(ctx, e, txn)
}
func (*benchHandler) Revert(context.Context, controller.Event) error { return nil }
