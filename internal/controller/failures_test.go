package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
)

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
				// Fatal errors are returned by Fatal and not logged.
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
