package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestStartupResyncIsTheFirstEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.push(newEvent("first"))
		r.push(&note{name: "second"})
		r.wantCalls()
		r.push(&controller.DBResync{})
		r.wantHistory("Database Resync", "first", "second")
		if record := r.History(time.Time{}, time.Time{})[0]; record.SeqNum != 0 || record.Method != controller.FullResync {
			t.Errorf("startup resync is #%d, %v", record.SeqNum, record.Method)
		}
		if txn := r.sched.txns[0]; txn.Resync != kvscheduler.FullResync {
			t.Errorf("startup transaction is %v", txn.Resync)
		}
	})
}

func TestOrderOfHandlers(t *testing.T) {
	for _, test := range []struct {
		name      string
		direction controller.Direction
		txnType   controller.TransactionType
		fails     string
		want      []string
	}{
		{"forward", controller.Forward, controller.BestEffort, "", []string{"a update", "b update", "c update"}},
		{"reverse", controller.Reverse, controller.BestEffort, "", []string{"c update", "b update", "a update"}},
		{"best effort goes on after an error", controller.Forward, controller.BestEffort, "b", []string{"a update", "b update", "c update"}},
		{"revert goes backwards", controller.Forward, controller.RevertOnFailure, "b", []string{"a update", "b update", "b revert", "a revert"}},
		{"revert of a reverse event goes forward", controller.Reverse, controller.RevertOnFailure, "a", []string{"c update", "b update", "a update", "a revert", "b revert", "c revert"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.started()
				for _, h := range []*handler{r.a, r.b, r.c} {
					if h.name == test.fails {
						h.update = failing(errors.New("broken"))
					}
				}
				e := newEvent("x")
				e.direction, e.txnType = test.direction, test.txnType
				err := r.do(e)
				if (err != nil) != (test.fails != "") {
					t.Errorf("result: %v", err)
				}
				for i := range r.calls {
					r.calls[i] = strings.TrimSuffix(r.calls[i], " x")
				}
				r.wantCalls(test.want...)
			})
		})
	}
}

func TestOnlyInterestedHandlersAreCalled(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.b.wants = func(e controller.Event) bool { return e.Name() != "x" }
		r.do(newEvent("x"))
		r.wantCalls("a update x", "c update x")
	})
}

func TestOneTransactionPerEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.b.update = func(_ context.Context, _ controller.Event, txn controller.UpdateOperations) (string, error) {
			if txn.Get("k/1") == nil {
				t.Error("the value put by another handler is not visible")
			}
			if r.GetConfig("k/1") == nil {
				t.Error("GetConfig does not see the running transaction")
			}
			txn.Delete("k/0")
			return "", nil
		}
		if err := r.do(newEvent("x")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"-k/0", "k/1"}, r.sched.lastKeys()); diff != "" {
			t.Error(diff)
		}
		txn := r.sched.lastTxn()
		if txn.Description != "x\n* a: put k/1" {
			t.Errorf("description: %q", txn.Description)
		}
		if want := (kvscheduler.Retry{Period: time.Second, MaxCount: 3, ExpBackoff: true}); txn.Retry == nil || *txn.Retry != want {
			t.Errorf("retry: %v", txn.Retry)
		}
		if txn.Revert || txn.Resync != kvscheduler.NotResync {
			t.Errorf("got %+v", txn)
		}
		if r.GetConfig("k/1") == nil || r.GetConfig("k/0") != nil {
			t.Error("GetConfig after the transaction")
		}
	})
}

func TestEventWithoutChangesHasNoTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		n := len(r.sched.txns)
		r.do(newEvent("x"))
		if len(r.sched.txns) != n || r.lastRecord().Txn != nil {
			t.Errorf("%d transactions", len(r.sched.txns)-n)
		}
	})
}

func TestRetryCanBeTurnedOff(t *testing.T) {
	cfg := controller.DefaultConfig()
	cfg.EnableRetry = false
	inBubbleWith(t, cfg, nil, func(t *testing.T, r *rig) {
		r.started()
		if r.sched.lastTxn().Retry != nil {
			t.Error("retry is on")
		}
	})
}

func TestFollowUpsComeFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var scoped context.Context
		r.a.update = func(ctx context.Context, e controller.Event, _ controller.UpdateOperations) (string, error) {
			if e.Name() == "x" {
				scoped = ctx
				for _, name := range []string{"x1", "x2"} {
					if err := r.PushEvent(ctx, &note{name: name}); err != nil {
						t.Error(err)
					}
				}
			}
			if e.Name() == "x1" {
				r.PushEvent(ctx, &note{name: "x1.1"})
			}
			return "", nil
		}
		r.push(newEvent("x"))
		r.push(newEvent("y"))
		r.started()
		r.wantHistory("Database Resync", "x", "x1", "x2", "x1.1", "y")
		record := r.History(time.Time{}, time.Time{})[4]
		if !record.IsFollowUp || record.FollowUpTo != 2 {
			t.Errorf("x1.1 is a follow-up: %v, to #%d", record.IsFollowUp, record.FollowUpTo)
		}
		// A goroutine that outlives the event sends ordinary events.
		if err := r.PushEvent(scoped, newEvent("z")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if r.lastRecord().IsFollowUp {
			t.Error("z is a follow-up")
		}
	})
}

func TestBlockingFollowUpIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = func(ctx context.Context, _ controller.Event, _ controller.UpdateOperations) (string, error) {
			for _, e := range []controller.Event{newEvent("y"), &controller.ExternalConfigResync{Source: "db", Result: new(controller.Blocking)}} {
				if err := r.PushEvent(ctx, e); !errors.Is(err, controller.ErrBlockingFollowUp) || !strings.Contains(err.Error(), e.Name()) {
					t.Errorf("%s: %v", e.Name(), err)
				}
			}
			if err := newEvent("y").Wait(ctx); !errors.Is(err, controller.ErrBlockingFollowUp) {
				t.Errorf("Wait: %v", err)
			}
			return "", r.PushEvent(ctx, &controller.ExternalConfigResync{Source: "db"})
		}
		if err := r.do(newEvent("x")); err != nil {
			t.Error(err)
		}
		r.wantHistory("Database Resync", "x", "External Config Resync")
	})
}

func TestFullQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 8192 {
			if err := r.PushEvent(t.Context(), &note{name: "n"}); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		if err := r.PushEvent(t.Context(), &note{name: "n"}); !errors.Is(err, controller.ErrQueueFull) {
			t.Errorf("one more event: %v", err)
		}
	})
}

func TestShutdownIsTheLastEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = func(_ context.Context, e controller.Event, txn controller.UpdateOperations) (string, error) {
			if _, ok := e.(*controller.Shutdown); ok {
				txn.Delete("k/1")
			}
			return "", nil
		}
		last := newEvent("last")
		if err := r.PushEvent(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		r.wantHistory("Database Resync", "last", "Shutdown")
		if diff := cmp.Diff([]string{"-k/1"}, r.sched.lastKeys()); diff != "" {
			t.Error(diff)
		}
		if err := r.PushEvent(t.Context(), newEvent("late")); !errors.Is(err, controller.ErrClosed) {
			t.Errorf("late event: %v", err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestCloseBeforeTheStartupResync(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		waiting := newEvent("early")
		r.push(waiting)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := waiting.Wait(t.Context()); !errors.Is(err, controller.ErrClosed) {
			t.Errorf("event that waited: %v", err)
		}
		r.wantCalls()
	})
}

func TestKubeStateIsCached(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := func(name string) *pod.Pod { return &pod.Pod{Name: name} }
		r.push(&controller.DBResync{State: controller.KubeState{"pod": {"1": p("1"), "2": p("2")}}})
		r.push(&controller.KubeStateChange{Resource: "pod", Key: "3", NewValue: p("3")})
		r.push(&controller.KubeStateChange{Resource: "pod", Key: "1", PrevValue: p("1")})
		r.push(&controller.KubeStateChange{Resource: "node", Key: "n", NewValue: p("n")})
		var got controller.KubeState
		r.a.resync = func(_ context.Context, _ controller.Event, state controller.KubeState, _ int, _ controller.ResyncOperations) error {
			got = state
			return nil
		}
		r.push(&controller.VerificationResync{})
		want := controller.KubeState{"pod": {"2": p("2"), "3": p("3")}, "node": {"n": p("n")}}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		e := newEvent("x")
		r.push(e)
		o, err := e.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !o.Accepted || o.Record.SeqNum != 1 || o.Txn().SeqNum != 101 || o.Txn().SouthboundTime != time.Millisecond {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestUpdateEventsMustSayHow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if err := r.PushEvent(t.Context(), incompleteEvent{}); err == nil || !strings.Contains(err.Error(), "no TransactionType") {
			t.Errorf("got %v", err)
		}
	})
}

type incompleteEvent struct{ controller.NonBlocking }

func (incompleteEvent) Name() string                   { return "incomplete" }
func (incompleteEvent) String() string                 { return "" }
func (incompleteEvent) Method() controller.EventMethod { return controller.Update }

func TestGetConfigReturnsCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.do(newEvent("x"))
		proto.Reset(r.GetConfig("k/1"))
		if got := r.GetConfig("k/1"); !proto.Equal(got, iface("1")) {
			t.Errorf("got %v", got)
		}
	})
}
