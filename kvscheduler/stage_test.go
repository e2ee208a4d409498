package kvscheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// table is a southbound with a stage: prepared values move to shown when the stage is committed.
type table struct {
	*southbound
	prepared map[string]string // "" stands for a deletion
	shown    map[string]string
	// commit, if not nil, runs before a Commit is applied and may fail it.
	commit func() error
	// refused are keys that a Commit does not apply.
	refused []string
}

func newTable(t *testing.T) *table {
	return &table{southbound: newSouthbound(t), prepared: map[string]string{}, shown: map[string]string{}}
}

func (tb *table) stage() *Stage {
	return &Stage{Name: "table", Commit: func(context.Context) error {
		prepared := tb.prepared
		tb.prepared = map[string]string{}
		if err := tb.called("COMMIT", "table"); err != nil {
			return err
		}
		if tb.commit != nil {
			if err := tb.commit(); err != nil {
				return err
			}
		}
		left := &StageError{Keys: map[string]error{}}
		for key, v := range prepared {
			switch {
			case slices.Contains(tb.refused, key):
				left.Keys[key] = errBoom
			case v == "":
				delete(tb.shown, key)
			default:
				tb.shown[key] = v
			}
		}
		if len(left.Keys) > 0 {
			return left
		}
		return nil
	}}
}

// prepare executes an operation of the table, or one of a descriptor without a stage.
func (tb *table) prepare(op, key, v string) error {
	err := tb.called(op, key)
	if err == nil && !strings.HasPrefix(key, "other/") {
		tb.prepared[key] = v
	}
	return err
}

func (tb *table) descriptor(st *Stage, name string, deps func(key, v string) []Dependency) Descriptor[text, NoMetadata] {
	return Descriptor[text, NoMetadata]{
		Name: name, Keys: KeySpace{Prefix: name + "/"}, NB: true, Stage: st,
		Create: func(_ context.Context, key string, v text) (m NoMetadata, err error) {
			return m, tb.prepare("CREATE", key, v.Value)
		},
		Update: func(_ context.Context, key string, _, v text, _ NoMetadata) (m NoMetadata, err error) {
			return m, tb.prepare("UPDATE", key, v.Value)
		},
		Delete: func(_ context.Context, key string, _ text, _ NoMetadata) error {
			return tb.prepare("DELETE", key, "")
		},
		RetrieveKeys: func(_ context.Context, expected []Item[text, NoMetadata]) (found []Item[text, NoMetadata], err error) {
			for _, it := range expected {
				if v, ok := tb.shown[it.Key]; ok {
					found = append(found, Item[text, NoMetadata]{Key: it.Key, Value: val(v), Origin: FromNB})
				}
			}
			return found, tb.called("RETRIEVE", name)
		},
		Dependencies: func(key string, v text) []Dependency {
			if deps == nil {
				return nil
			}
			return deps(key, v.Value)
		},
	}
}

// register registers set and list, which share a stage, and other, which has none. A list depends on the set
// that it names, and other depends on the list.
func (tb *table) register(t *testing.T, s *Scheduler) {
	t.Helper()
	st := tb.stage()
	names := func(prefix string) func(key, v string) []Dependency {
		return func(_, v string) []Dependency {
			if v == "x" {
				return nil
			}
			return []Dependency{on("it", prefix+v)}
		}
	}
	for _, d := range []Descriptor[text, NoMetadata]{
		tb.descriptor(st, "set", nil), tb.descriptor(st, "list", names("set/")),
		tb.descriptor(nil, "other", names("list/")),
	} {
		if err := Register(s, d); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStageIsCommittedOncePerTransaction(t *testing.T) {
	s, tb := newScheduler(t), newTable(t)
	tb.register(t, s)
	tb.commit = func() error {
		if s.ValueStatus("list/a").Value.State == pb.ValueState_CONFIGURED {
			t.Error("the result was published before the stage was committed")
		}
		return nil
	}
	mustCommit(t, s, "set/1=x list/a=1 list/b=1 other/1=x")
	wantCalls(t, tb.southbound, "CREATE other/1", "CREATE set/1", "CREATE list/a", "CREATE list/b", "COMMIT table")
	tb.commit = nil
	mustCommit(t, s, "set/1=y list/a=x list/b")
	wantCalls(t, tb.southbound, "DELETE list/b", "UPDATE list/a", "UPDATE set/1", "COMMIT table")
	mustCommit(t, s, "set/1=y other/2=x")
	wantCalls(t, tb.southbound, "CREATE other/2")
}

// A failed early stage does not fail later operations that do not depend on it.
func TestEarlyStageIsCommittedBeforeLaterOperations(t *testing.T) {
	s, tb := newScheduler(t), newTable(t)
	st := tb.stage()
	st.Early = true
	for _, d := range []Descriptor[text, NoMetadata]{tb.descriptor(st, "list", nil), tb.descriptor(st, "set", nil), tb.descriptor(nil, "other", nil), tb.descriptor(nil, "zone", nil)} {
		if err := Register(s, d); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, s, "list/a=x set/1=x zone/1=x zone/2=x")
	wantCalls(t, tb.southbound, "CREATE list/a", "CREATE set/1", "COMMIT table", "CREATE zone/1", "CREATE zone/2")
	mustCommit(t, s, "list/a=y other/1=x set/1=y")
	wantCalls(t, tb.southbound, "CREATE other/1", "UPDATE list/a", "UPDATE set/1", "COMMIT table")
	tb.commit = func() error { return errBoom }
	if _, err := commit(t, s, "set/2=x zone/3=x"); err == nil {
		t.Error("commit succeeded although the stage failed")
	}
	if got := s.ValueStatus("zone/3").Value.State; got != pb.ValueState_CONFIGURED {
		t.Errorf("zone/3 is %v", got)
	}
}

func TestStageIsCommittedBeforeItsDependents(t *testing.T) {
	s, tb := newScheduler(t), newTable(t)
	tb.register(t, s)
	mustCommit(t, s, "set/1=x list/a=1 other/1=a other/2=x")
	wantCalls(t, tb.southbound, "CREATE other/2", "CREATE set/1", "CREATE list/a", "COMMIT table", "CREATE other/1")
	mustCommit(t, s, "list/a")
	wantCalls(t, tb.southbound, "DELETE other/1", "DELETE list/a", "COMMIT table")
}

func TestFailedCommitFailsItsPreparedValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tb := newScheduler(t), newTable(t)
		defer func() { _ = s.Close() }()
		tb.register(t, s)
		mustCommit(t, s, "set/1=x set/2=x list/a=1")
		tb.take()
		tb.failNext("COMMIT table", errBoom)
		_, err := commit(t, s, "set/1=y set/2 set/3=x other/1=x", WithRetry(Retry{Period: time.Second}))
		var failed []string
		for _, e := range errorsOf(err) {
			failed = append(failed, e.Key+" "+e.Operation.String())
		}
		wantList(t, "failures", failed, []string{"set/2 DELETE", "set/3 CREATE", "set/1 UPDATE"})
		if !errors.Is(err, errBoom) {
			t.Error(err)
		}
		for key, want := range map[string]pb.ValueState{"set/1": pb.ValueState_RETRYING, "set/2": pb.ValueState_RETRYING,
			"set/3": pb.ValueState_RETRYING, "list/a": pb.ValueState_CONFIGURED, "other/1": pb.ValueState_CONFIGURED} {
			wantState(t, s, key, want)
		}
		if tb.shown["set/1"] != "x" || tb.shown["set/2"] != "x" || tb.shown["set/3"] != "" {
			t.Errorf("southbound is partly changed: %v", tb.shown)
		}
		wantCalls(t, tb.southbound, "DELETE set/2", "CREATE other/1", "CREATE set/3", "UPDATE set/1", "COMMIT table", "RETRIEVE set")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCalls(t, tb.southbound, "DELETE set/2", "CREATE set/3", "UPDATE set/1", "COMMIT table")
		wantState(t, s, "set/1", pb.ValueState_CONFIGURED)
		if tb.shown["set/1"] != "y" || tb.shown["set/2"] != "" || tb.shown["set/3"] != "x" {
			t.Errorf("southbound after the retry is %v", tb.shown)
		}
	})
}

// The commit of a cycle fails. Its existing values are deleted, because none may rely on a failed one. They are
// created again by the retry.
func TestCycleWaitsForTheRetryOfAFailedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tb := newScheduler(t), newTable(t)
		defer func() { _ = s.Close() }()
		st := tb.stage()
		apply, failing := st.Commit, true
		st.Commit = func(ctx context.Context) error {
			err := apply(ctx)
			if failing {
				failing, err = false, errBoom
			}
			return err
		}
		err := Register(s, tb.descriptor(st, "ring", func(_, v string) []Dependency { return []Dependency{on("it", "ring/"+v)} }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := commit(t, s, "ring/a=b ring/b=a", WithRetry(Retry{Period: time.Second})); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		wantCalls(t, tb.southbound, "CREATE ring/b", "CREATE ring/a", "COMMIT table", "RETRIEVE ring", "DELETE ring/b", "DELETE ring/a", "COMMIT table")
		wantState(t, s, "ring/a", pb.ValueState_RETRYING)
		wantState(t, s, "ring/b", pb.ValueState_PENDING, "it")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, s, "ring/a", pb.ValueState_CONFIGURED)
		wantState(t, s, "ring/b", pb.ValueState_CONFIGURED)
	})
}

func TestCommitMayRejectSomeKeys(t *testing.T) {
	s, tb := newScheduler(t), newTable(t)
	tb.register(t, s)
	tb.refused = []string{"set/1"}
	_, err := commit(t, s, "set/1=x list/a=1 set/2=x list/b=2")
	if errs := errorsOf(err); len(errs) != 1 || errs[0].Key != "set/1" {
		t.Fatal(err)
	}
	wantState(t, s, "set/1", pb.ValueState_FAILED)
	wantState(t, s, "list/a", pb.ValueState_PENDING, "it")
	wantState(t, s, "list/b", pb.ValueState_CONFIGURED)
	if len(tb.shown) != 2 || tb.shown["set/2"] == "" || tb.shown["list/b"] == "" {
		t.Errorf("southbound is %v", tb.shown)
	}
}

// No operation of a reverted transaction takes effect, whether the stage or another value fails.
func TestRevertedTransactionNeverTakesEffect(t *testing.T) {
	for _, failing := range []string{"COMMIT table", "CREATE other/1"} {
		t.Run(failing, func(t *testing.T) {
			s, tb := newScheduler(t), newTable(t)
			tb.register(t, s)
			mustCommit(t, s, "set/1=x list/a=1")
			tb.commit = func() error {
				if len(tb.shown) != 2 || tb.shown["set/1"] != "x" {
					t.Errorf("committed on top of %v", tb.shown)
				}
				return nil
			}
			tb.failNext(failing, errBoom)
			_, err := commit(t, s, "set/0=x set/1=y list/a other/1=x", WithRevert())
			var te *TransactionError
			if !errors.As(err, &te) || !te.Reverted || !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			for _, e := range te.Errors {
				if e.Operation == pb.TxnOperation_UNDEFINED {
					t.Error(e)
				}
			}
			if len(tb.shown) != 2 || tb.shown["set/1"] != "x" || tb.shown["list/a"] != "1" {
				t.Errorf("southbound is %v", tb.shown)
			}
			wantState(t, s, "set/1", pb.ValueState_CONFIGURED)
			wantState(t, s, "list/a", pb.ValueState_CONFIGURED)
			wantState(t, s, "set/0", pb.ValueState_NONEXISTENT)
		})
	}
}

func TestInvalidStageIsRejected(t *testing.T) {
	s, tb := newScheduler(t), newTable(t)
	d := tb.descriptor(tb.stage(), "a", nil)
	d.DerivedValues = func(string, text) []KeyValue { return nil }
	if err := Register(s, d); err == nil {
		t.Error("descriptor with a stage and derived values was registered")
	}
	if err := Register(s, tb.descriptor(&Stage{Name: "x"}, "b", nil)); err == nil {
		t.Error("stage without Commit was registered")
	}
	if err := Register(s, tb.descriptor(tb.stage(), "c", nil)); err != nil {
		t.Error(err)
	}
	if err := Register(s, tb.descriptor(tb.stage(), "d", nil)); err == nil {
		t.Error("second stage with the same name was registered")
	}
}
