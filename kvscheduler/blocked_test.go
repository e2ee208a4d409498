package kvscheduler

import (
	"slices"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// The failed deletion of r/2 blocks that of d/k1/b. Meanwhile k/0, which needs any of d/, was deleted, so
// d/k1/b has lost its dependency and is FAILED.
func TestUndeletedDerivedValueFailsWithoutItsDependency(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/0": {Deps: []string{"any:d/"}}, "k/1": {Items: []string{"a", "b"}}, "r/2": {Deps: []string{"d/k1/b"}}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "DELETE r/2" {
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"k/1": {}}); err == nil {
		t.Error("no error")
	}
	wantState(t, s, "k/0", pb.ValueState_PENDING, "0 any:d/")
	wantState(t, s, "d/k1/b", pb.ValueState_FAILED)
	w.outcome = nil
	if err := commit(nil, WithResync(DownstreamResync)); err != nil {
		t.Error(err)
	}
	wantState(t, s, "k/1", pb.ValueState_CONFIGURED)
	wantState(t, s, "r/2", pb.ValueState_PENDING, "0 d/k1/b")
	if got := content(w.exists); !slices.Equal(got, []string{`k/1 {"V":0}`}) {
		t.Errorf("southbound has %q", got)
	}
}

// The re-creation of k/2 is blocked by its derived value. k/2 fails, because the member of its cycle that it
// depends on will change.
func TestFailedRecreationFailsAfterItsCycleBreaks(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/2": {Deps: []string{"r/0"}, Items: []string{"a"}}, "r/0": {Deps: []string{"any:k/"}}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "DELETE d/k2/a" {
			return failsBefore
		}
		return succeeds
	}
	w.ops = nil
	w.between = func(op, key string) {
		if n, _ := s.graph.Get("k/2"); op+" "+key == "CREATE r/0" && n.State() != pb.ValueState_FAILED {
			t.Errorf("k/2 is %v without r/0", n.State())
		}
	}
	change := map[string]*spec{"k/2": {V: 1}, "r/0": {V: 1}}
	if err := commit(change); err == nil {
		t.Error("no error")
	}
	if !slices.Contains(w.ops, "CREATE r/0") {
		t.Errorf("calls %q", w.ops)
	}
	w.outcome = nil
	if err := commit(change); err != nil {
		t.Error(err)
	}
	wantState(t, s, "r/0", pb.ValueState_CONFIGURED)
	wantState(t, s, "k/2", pb.ValueState_CONFIGURED)
	if got := content(w.exists); !slices.Equal(got, []string{`k/2 {"V":1}`, `r/0 {"V":1}`}) {
		t.Errorf("southbound has %q", got)
	}
}

// The deletion of d/r2/b was blocked by k/1. It is deleted before its dependency k/0.
func TestUndeletedDerivedValueIsDeletedBeforeItsDependency(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/0": {}, "r/2": {Items: []string{"a", "b"}}, "k/1": {Deps: []string{"d/r2/b"}}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "DELETE k/1" {
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"r/2": {}}); err == nil {
		t.Error("no error")
	}
	if _, ok := w.exists["d/r2/b"]; !ok {
		t.Fatalf("southbound has %q", content(w.exists))
	}
	w.outcome, w.ops = nil, nil
	if err := commit(map[string]*spec{"k/0": nil}); err != nil {
		t.Error(err)
	}
	if want := []string{"DELETE k/1", "DELETE d/r2/b", "DELETE k/0"}; !slices.Equal(w.ops, want) {
		t.Errorf("calls %q, want %q", w.ops, want)
	}
	wantState(t, s, "k/1", pb.ValueState_PENDING, "0 d/r2/b")
	if err := commit(map[string]*spec{"r/2": {}}); err != nil {
		t.Error(err)
	}
	wantState(t, s, "r/2", pb.ValueState_CONFIGURED)
}
