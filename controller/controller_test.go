package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/controller"
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

func TestStartupResyncDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		waiting := newEvent("early")
		r.push(waiting)
		r.after(29 * time.Second)
		if err := r.Alive(); err != nil {
			t.Errorf("after 29 s: %v", err)
		}
		r.after(2 * time.Second)
		err := <-r.Fatal()
		if !errors.Is(err, controller.ErrNoStartupResync) || !strings.Contains(err.Error(), "30s") {
			t.Errorf("fatal error: %v", err)
		}
		if err := waiting.Wait(t.Context()); !errors.Is(err, controller.ErrAborting) {
			t.Errorf("event that waited: %v", err)
		}
		if err := r.PushEvent(t.Context(), newEvent("late")); !errors.Is(err, controller.ErrAborting) {
			t.Errorf("later event: %v", err)
		}
		if r.Alive() == nil || r.Ready() == nil {
			t.Error("still alive or ready")
		}
	})
}

func TestReadiness(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		synctest.Wait()
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "startup resync") {
			t.Errorf("before the resync: %v", err)
		}
		r.started()
		if err := r.Ready(); err != nil {
			t.Errorf("after the resync: %v", err)
		}
	})
}

func TestReadinessAfterFailedStartupResync(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		broken := true
		r.b.resync = func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			if broken {
				return errors.New("no NIC")
			}
			return nil
		}
		r.c.resync = func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			if broken {
				return errors.New("no address, since there is no NIC")
			}
			return nil
		}
		r.started()
		if err := r.Ready(); err == nil || !strings.HasSuffix(err.Error(), "b: no NIC") {
			t.Errorf("after a failed resync: %v", err)
		}
		if err := r.Alive(); err != nil {
			t.Errorf("alive: %v", err)
		}
		broken = false
		r.after(6 * time.Second)
		r.wantHistory("Database Resync", "Healing Resync")
		if err := r.Ready(); err != nil {
			t.Errorf("after healing: %v", err)
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
				t.Error("what another handler has put is not seen")
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

func TestRevertedEventLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.sched.fail = failKey("k/1")
		e := newEvent("x")
		e.txnType = controller.RevertOnFailure
		err := r.do(e)
		if err == nil || !strings.Contains(err.Error(), "k/1") || !strings.Contains(err.Error(), "no such device") {
			t.Errorf("result: %v", err)
		}
		if !r.sched.lastTxn().Revert {
			t.Error("the transaction was not to be reverted")
		}
		if r.GetConfig("k/1") != nil {
			t.Error("the value is remembered")
		}
		r.wantCalls("a update x", "b update x", "c update x", "c revert x", "b revert x", "a revert x")
		r.after(time.Minute)
		r.wantHistory("Database Resync", "x")
	})
}

func TestRevertedEventWithFailedHandlerIsNotCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		n := len(r.sched.txns)
		r.a.update = putting("k/1", iface("1"))
		r.b.update = failing(errors.New("no address left"))
		e := newEvent("x")
		e.txnType = controller.RevertOnFailure
		if err := r.do(e); err == nil {
			t.Error("no error")
		}
		if len(r.sched.txns) != n {
			t.Error("committed")
		}
	})
}

func TestFailedRevertIsHealed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.revert = func(context.Context, controller.Event) error { return errors.New("stuck") }
		r.b.update = failing(errors.New("no address left"))
		e := newEvent("x")
		e.txnType = controller.RevertOnFailure
		r.do(e)
		r.after(6 * time.Second)
		r.wantHistory("Database Resync", "x", "Healing Resync")
	})
}

func TestHealingOnceAfterManyErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		state := controller.KubeState{"pod": {"k8s/pod/p": &pod.Pod{Name: "p"}}}
		r.push(&controller.DBResync{State: state})
		r.a.update = failing(errors.New("broken"))
		for i := range 3 {
			r.do(newEvent(fmt.Sprint(i)))
		}
		var healed controller.KubeState
		r.a.resync = func(_ context.Context, _ controller.Event, state controller.KubeState, n int, _ controller.ResyncOperations) error {
			healed = state
			if n != 2 {
				t.Errorf("resync count %d", n)
			}
			return nil
		}
		r.after(4 * time.Second)
		r.wantHistory("Database Resync", "0", "1", "2")
		r.after(time.Minute)
		r.wantHistory("Database Resync", "0", "1", "2", "Healing Resync")
		if healed["pod"]["k8s/pod/p"] == nil {
			t.Errorf("healing without the Kubernetes state: %v", healed)
		}
		if r.sched.lastTxn().Resync != kvscheduler.FullResync {
			t.Errorf("healing transaction: %v", r.sched.lastTxn().Resync)
		}
	})
}

func TestErrorsThatAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = failing(errors.New("broken"))
		e := newEvent("x")
		e.txnType = controller.BestEffortIgnoreErrors
		if err := r.do(e); err == nil {
			t.Error("the sender is not told")
		}
		r.after(time.Minute)
		r.wantHistory("Database Resync", "x")
	})
}

// What a healing cannot mend does not end the agent: it is told, and tried again, less
// and less often.
func TestFailedHealingIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			txn.Put("k/1", iface("1"))
			return nil
		}
		r.sched.fail = failKey("k/1")
		r.do(newEvent("x"))
		if err := r.Ready(); err != nil {
			t.Errorf("before healing: %v", err)
		}
		healings := func() int { return strings.Count(strings.Join(r.history(), " "), "Healing Resync") }
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{6 * time.Second, 1}, {8 * time.Second, 1}, {2 * time.Second, 2}, {20 * time.Second, 3}, {40 * time.Second, 4}, {time.Hour, 17}} {
			r.after(step.after)
			if got := healings(); got != step.want {
				t.Errorf("%v later: %d healings, want %d", step.after, got, step.want)
			}
			if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "healing resync failed") || !strings.Contains(err.Error(), "k/1") {
				t.Errorf("readiness: %v", err)
			}
			if err := r.Alive(); err != nil {
				t.Errorf("liveness: %v", err)
			}
		}
		r.a.update = nil
		if err := r.do(newEvent("y")); err != nil {
			t.Errorf("another event: %v", err)
		}
		r.sched.fail = nil
		r.after(6 * time.Minute)
		if err := r.Ready(); err != nil {
			t.Errorf("mended: %v", err)
		}
		before := healings()
		r.after(time.Hour)
		if got := healings(); got != before {
			t.Errorf("%d healings of what is fine", got-before)
		}
		r.b.update = failing(errors.New("broken"))
		r.do(newEvent("z"))
		r.after(6 * time.Second)
		if got := healings(); got != before+1 {
			t.Error("the next healing does not come at once")
		}
	})
}

// The readiness names what failed first: what fails after it may follow from it.
func TestFailedHealingNamesTheCause(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		fail := func(text string) func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			return func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
				return errors.New(text)
			}
		}
		r.started()
		r.a.resync, r.b.resync = fail("no such interface"), fail("no address")
		r.a.update = failing(errors.New("broken"))
		r.do(newEvent("x"))
		r.after(6 * time.Second)
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "healing resync failed and will be repeated: a: no such interface") {
			t.Errorf("readiness: %v", err)
		}
	})
}

// Values that can never be configured call for no healing.
func TestInvalidValuesAreNotHealed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.sched.fail, r.sched.final = failKey("k/1"), true
		if err := r.do(newEvent("x")); err == nil {
			t.Error("the sender is not told")
		}
		r.after(time.Minute)
		r.wantHistory("Database Resync", "x")
		if err := r.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// A handler that never returns shows in the health checks.
func TestStuckHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		release := make(chan struct{})
		r.a.update = func(context.Context, controller.Event, controller.UpdateOperations) (string, error) {
			<-release
			return "", nil
		}
		r.push(newEvent("x"))
		r.push(newEvent("y"))
		r.after(59 * time.Second)
		if err := r.Ready(); err != nil {
			t.Errorf("after 59 s: %v", err)
		}
		r.after(2 * time.Second)
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "the event loop is stuck in a, for event #1 (x) for 1m1s, 1 events wait") {
			t.Errorf("after 61 s: %v", err)
		}
		if err := r.Alive(); err != nil {
			t.Errorf("after 61 s: %v", err)
		}
		r.after(2 * time.Minute)
		if r.Alive() == nil {
			t.Error("alive after 3 min")
		}
		close(release)
		synctest.Wait()
		if err := errors.Join(r.Ready(), r.Alive()); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// While a transaction is executed, the scheduler says whether it gets any further.
func TestStuckScheduler(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		release := make(chan struct{})
		r.a.update = putting("k/1", iface("1"))
		r.sched.fail = func(controller.SchedulerTxn) []string { <-release; return nil }
		r.push(newEvent("x"))
		r.after(time.Hour)
		if err := errors.Join(r.Ready(), r.Alive()); err != nil {
			t.Errorf("slow: %v", err)
		}
		r.sched.stalled.Store(true)
		if r.Ready() == nil || r.Alive() == nil {
			t.Error("a scheduler that stalls is not told")
		}
		close(release)
	})
}

func TestAbortAndFatalErrorsDiffer(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		fatal   bool
		history []string
	}{
		{"plain", errors.New("x"), false, []string{"Database Resync", "x", "Healing Resync"}},
		{"abort", fmt.Errorf("wrapped: %w", controller.NewAbortEventError(errors.New("x"))), false, []string{"Database Resync", "x", "Healing Resync"}},
		{"fatal", fmt.Errorf("wrapped: %w", controller.NewFatalError(errors.New("x"))), true, []string{"Database Resync", "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.started()
				n := len(r.sched.txns)
				r.a.update = putting("k/1", iface("1"))
				r.b.update = failing(test.err)
				r.do(newEvent("x"))
				plain := test.name == "plain"
				if committed := len(r.sched.txns) > n; committed != plain {
					t.Errorf("committed: %v", committed)
				}
				if goesOn := slices.Contains(r.calls, "c update x"); goesOn != plain {
					t.Errorf("the next handler was called: %v", goesOn)
				}
				r.after(6 * time.Second)
				if fatal := r.Alive() != nil; fatal != test.fatal {
					t.Errorf("fatal: %v", fatal)
				}
				// A fatal error is left to whom Fatal tells it.
				if logged := strings.Contains(r.log.String(), "level=ERROR"); logged == test.fatal {
					t.Errorf("errors are in the log: %v\n%s", logged, r.log.String())
				}
				r.wantHistory(test.history...)
			})
		})
	}
}

func TestPanicAbortsTheEventOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.b.update = func(_ context.Context, _ controller.Event, txn controller.UpdateOperations) (string, error) {
			txn.Put("k", nil)
			return "", nil
		}
		if err := r.do(newEvent("x")); err == nil || !strings.Contains(err.Error(), "panic") {
			t.Errorf("result: %v", err)
		}
		r.b.update = nil
		r.after(6 * time.Second)
		if err := r.do(newEvent("y")); err != nil {
			t.Error(err)
		}
		r.wantHistory("Database Resync", "x", "Healing Resync", "y")
	})
}

// What a handler requested earlier is not removed because it fails to compute
// it anew.
func TestIncompleteResyncRemovesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/a", iface("a"))
		r.b.update = putting("k/b", iface("b"))
		r.do(newEvent("x"))
		r.a.resync = func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			return errors.New("broken")
		}
		r.b.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			txn.Put("k/new", iface("new"))
			return nil
		}
		r.push(&controller.DBResync{})
		if diff := cmp.Diff([]string{"k/a", "k/b", "k/new"}, r.sched.lastKeys()); diff != "" {
			t.Errorf("incomplete resync: %s", diff)
		}
		r.a.resync = nil
		r.after(6 * time.Second)
		if diff := cmp.Diff([]string{"k/new"}, r.sched.lastKeys()); diff != "" {
			t.Errorf("healing: %s", diff)
		}
	})
}

// What earlier runs of the agent have configured is not removed either.
func TestIncompleteStartupResyncIsNotCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.a.resync = func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			return errors.New("broken")
		}
		r.started()
		if len(r.sched.txns) != 0 {
			t.Errorf("committed %+v", r.sched.txns)
		}
		r.a.resync = nil
		r.after(6 * time.Second)
		if len(r.sched.txns) != 1 || r.sched.lastTxn().Resync != kvscheduler.FullResync {
			t.Errorf("healing: %+v", r.sched.txns)
		}
		if err := r.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// By default, the southbound is repaired every five minutes.
func TestPeriodicHealing(t *testing.T) {
	inBubbleWith(t, controller.DefaultConfig(), nil, func(t *testing.T, r *rig) {
		r.started()
		r.after(10*time.Minute + time.Second)
		r.wantHistory("Database Resync", "Healing Resync", "Healing Resync")
		r.wantCalls()
		if txn := r.sched.lastTxn(); txn.Resync != kvscheduler.DownstreamResync || len(txn.Values) != 0 {
			t.Errorf("got %+v", txn)
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

func TestEventsTellTheirSenderMore(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		e := newEvent("x")
		if err := r.do(e); err != nil {
			t.Fatal(err)
		}
		if e.seq != 1 || e.txnSeq != 101 || e.southbound != time.Millisecond {
			t.Errorf("event #%d, transaction #%d, %v", e.seq, e.txnSeq, e.southbound)
		}
	})
}

func TestVerification(t *testing.T) {
	cfg := controller.DefaultConfig()
	cfg.EnableVerification = true
	inBubbleWith(t, cfg, nil, func(t *testing.T, r *rig) {
		r.started()
		r.wantHistory("Database Resync", "Verification Resync")
		r.sched.ops = 1
		r.do(newEvent("x"))
		r.wantHistory("Database Resync", "Verification Resync", "x", "Verification Resync")
		if err := r.lastRecord().ErrorStr; !strings.Contains(err, "had to execute 1 operations") {
			t.Errorf("verification: %q", err)
		}
	})
}

func TestUpdateEventsMustSayHow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if err := r.PushEvent(t.Context(), incompleteEvent{}); err == nil || !strings.Contains(err.Error(), "UpdateEvent") {
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
