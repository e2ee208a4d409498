package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/google/go-cmp/cmp"
)

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
			t.Error("the sender got no error")
		}
		r.after(time.Minute)
		r.wantHistory("Database Resync", "x")
	})
}

// A failed healing does not end the agent. It is reported and retried with increasing delays.
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
			t.Errorf("%d unnecessary healings", got-before)
		}
		r.b.update = failing(errors.New("broken"))
		r.do(newEvent("z"))
		r.after(6 * time.Second)
		if got := healings(); got != before+1 {
			t.Error("the next healing does not come at once")
		}
	})
}

// A change may have removed the cause of a failed healing, so it brings the next one forward. At
// least 30 seconds pass between healings.
func TestChangeBringsHealingForward(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		changed := make(chan struct{})
		r.sched.changed = changed
		r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			txn.Put("k/1", iface("1"))
			return nil
		}
		r.sched.fail = failKey("k/1")
		r.a.update = failing(errors.New("broken"))
		r.do(newEvent("x"))
		healings := func() int { return strings.Count(strings.Join(r.history(), " "), "Healing Resync") }
		expect := func(when string, want int) {
			t.Helper()
			if got := healings(); got != want {
				t.Errorf("%s: %d healings, want %d", when, got, want)
			}
		}
		change := func() { // only while awaited
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		r.after(6 * time.Minute) // after 5, 15, 35, 75, 155, 315 seconds
		expect("nothing changes", 6)
		change()
		r.after(4 * time.Second)
		expect("4 s after a change", 6)
		r.after(2 * time.Second)
		expect("6 s after a change", 7)
		for range 20 { // one per second while awaited
			change()
			r.after(time.Second)
		}
		expect("much changes soon after a healing", 7)
		r.after(11 * time.Second)
		expect("half a minute after a healing", 8)
		r.after(295 * time.Second)
		expect("nothing changes again", 8)
		change() // three seconds before it is due
		r.after(4 * time.Second)
		expect("it was due anyway", 9)
		r.after(time.Minute)
		expect("the next one", 9)
		r.Changed() // e.g. a device of the host
		r.after(3 * time.Second)
		r.Changed() // changes do not delay it
		r.after(3 * time.Second)
		expect("6 s after a change outside of values", 10)
		r.sched.fail = nil
		change()
		r.after(31 * time.Second)
		expect("the cause is gone", 11)
		r.Changed()
		r.after(time.Minute)
		expect("nothing waits", 11)
		if err := r.Ready(); err != nil {
			t.Errorf("the cause is gone: %v", err)
		}
	})
}

// Readiness names the first failure, since later ones may be consequences.
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

// Permanently invalid values trigger no healing.
func TestInvalidValuesAreNotHealed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.sched.fail, r.sched.final = failKey("k/1"), true
		if err := r.do(newEvent("x")); err == nil {
			t.Error("the sender got no error")
		}
		r.after(time.Minute)
		r.wantHistory("Database Resync", "x")
		if err := r.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// A handler that fails in a resync does not lose the values of earlier events.
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

// Nor is the configuration of earlier runs of the agent removed.
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
