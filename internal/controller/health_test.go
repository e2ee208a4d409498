package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/controller"
)

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
				return errors.New("no address without a NIC")
			}
			return nil
		}
		r.started()
		if err := r.Ready(); err == nil || !strings.HasSuffix(err.Error(), "b: no NIC") {
			t.Errorf("after a failed resync: %v", err)
		}
		if r.Synced() {
			t.Error("synced without a resync")
		}
		if err := r.Alive(); err != nil {
			t.Errorf("alive: %v", err)
		}
		broken = false
		r.after(6 * time.Second)
		r.wantHistory("Database Resync", "Healing Resync")
		if err := r.Ready(); err != nil || !r.Synced() {
			t.Errorf("after healing: %v, synced: %v", err, r.Synced())
		}
	})
}

// A value that fails in the startup resync makes the agent unready; all other values are
// configured.
func TestSyncedInSpiteOfAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			if r.Synced() {
				t.Error("synced before the resync")
			}
			txn.Put("k/1", iface("1"))
			return nil
		}
		r.sched.fail = failKey("k/1")
		r.started()
		if err := r.Ready(); err == nil || !r.Synced() {
			t.Errorf("ready: %v, synced: %v", err, r.Synced())
		}
	})
}

// A handler that never returns fails the health checks.
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
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "the event loop has been stuck in a, for event #1 (x) for 1m1s; 1 events are waiting") {
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

// During a transaction, the health checks ask the scheduler for progress.
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
			t.Error("a stalled scheduler is not reported")
		}
		close(release)
	})
}
