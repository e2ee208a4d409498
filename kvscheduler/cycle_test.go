package kvscheduler

import (
	"errors"
	"slices"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// newWorld returns a scheduler with an empty world and a function that commits values.
func newWorld(t *testing.T) (*Scheduler, *world, func(map[string]*spec, ...TxnOption) error) {
	s := newScheduler(t)
	w := &world{exists: map[string]spec{}}
	w.register(s)
	return s, w, func(values map[string]*spec, opts ...TxnOption) error {
		txn := s.NewTransaction()
		for key, sp := range values {
			if sp == nil {
				txn.Delete(key)
			} else {
				txn.Put(key, sp.value())
			}
		}
		_, err := txn.Commit(t.Context(), opts...)
		return err
	}
}

// A cycle through derived values loses its outside support. Every derived value is deleted before its base
// value, even if the search for the base value started from the derived one.
func TestCycleThroughDerivedValuesIsDeletedInOrder(t *testing.T) {
	_, w, commit := newWorld(t)
	must := func(values map[string]*spec) {
		t.Helper()
		if err := commit(values); err != nil {
			t.Fatal(err)
		}
	}
	must(map[string]*spec{
		"k/0": {},
		"k/1": {Items: []string{"a", "b"}},
		"k/2": {Deps: []string{"r/1"}, Items: []string{"a", "e"}}, // e needs b of k/1
		"r/1": {Deps: []string{"any:d/"}},
	})
	if len(w.exists) != 8 {
		t.Fatalf("southbound has %q", content(w.exists))
	}
	w.ops = nil
	must(map[string]*spec{"k/1": nil})
	if got := content(w.exists); !slices.Equal(got, []string{`k/0 {"V":0}`}) {
		t.Errorf("southbound has %q", got)
	}
	at := func(op string) int {
		i := slices.Index(w.ops, op)
		if i < 0 {
			t.Errorf("no %s in %q", op, w.ops)
		}
		return i
	}
	for _, before := range [][2]string{
		{"DELETE d/k2/a", "DELETE k/2"}, {"DELETE d/k2/e", "DELETE k/2"}, {"DELETE k/2", "DELETE r/1"},
		{"DELETE d/k2/e", "DELETE d/k1/b"}, {"DELETE d/k1/b", "DELETE k/1"},
	} {
		if at(before[0]) > at(before[1]) {
			t.Errorf("%s after %s: %q", before[0], before[1], w.ops)
		}
	}
}

// The deletion of one member of a cycle failed and the others are gone. They support each other, so all of
// them are created again together.
func TestCycleIsRestoredAroundUndeletableMember(t *testing.T) {
	members := map[string]*spec{"k/1": {Deps: []string{"r/2"}}, "r/0": {Deps: []string{"k/1"}}, "r/2": {Deps: []string{"r/0"}}}
	for name, again := range map[string]struct {
		request map[string]*spec
		opts    []TxnOption
	}{
		"full resync":           {members, []TxnOption{WithResync(FullResync)}},
		"downstream resync":     {nil, []TxnOption{WithResync(DownstreamResync)}},
		"request of all":        {members, nil},
		"request of the member": {map[string]*spec{"r/2": members["r/2"]}, nil},
		"change of another":     {map[string]*spec{"r/0": {V: 1, Deps: []string{"k/1"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, w, commit := newWorld(t)
			if err := commit(members); err != nil {
				t.Fatal(err)
			}
			failing := []string{"DELETE r/0", "DELETE r/2", "DELETE r/2"}
			w.outcome = func(op, key string) outcome {
				if len(failing) > 0 && op+" "+key == failing[0] {
					failing = failing[1:]
					return failsBefore
				}
				return succeeds
			}
			if err := commit(map[string]*spec{"r/2": nil}, WithRevert()); err == nil || len(failing) > 0 || len(w.exists) != 1 {
				t.Fatalf("error %v, calls %q, southbound has %q", err, w.ops, content(w.exists))
			}
			w.outcome, w.ops = nil, nil
			if err := commit(again.request, again.opts...); err != nil {
				t.Error(err)
			}
			if len(w.exists) != len(members) || slices.Contains(w.ops, "DELETE r/2") {
				t.Errorf("calls %q, southbound has %q", w.ops, content(w.exists))
			}
		})
	}
}

// A value that loses its support stays while its dependencies exist: r/1 would be deleted after d/k1/b and
// together with d/k1/a. It stays, because the deletion of d/k1/b fails.
func TestFailedDeletionKeepsDependencies(t *testing.T) {
	_, w, commit := newWorld(t)
	if err := commit(map[string]*spec{
		"r/0": {},
		"k/0": {},
		"k/1": {Deps: []string{"k/0", "any:r/"}, Items: []string{"a", "b"}}, // b needs k/0
		"r/1": {Deps: []string{"any:d/k1/"}},
	}); err != nil {
		t.Fatal(err)
	}
	before := content(w.exists)
	w.ops = nil
	w.outcome = func(op, key string) outcome {
		if op == "DELETE" && key == "d/k1/b" {
			w.outcome = nil
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"k/0": {V: 1}}, WithRevert()); err == nil {
		t.Error("no error")
	}
	want := []string{"DELETE d/k1/b"}
	if !slices.Equal(w.ops, want) {
		t.Errorf("calls\n  %q, want\n  %q", w.ops, want)
	}
	if after := content(w.exists); !slices.Equal(after, before) {
		t.Errorf("reverted to %q, was %q", after, before)
	}
}

// Deleting the remains of a failed deletion may delete other dependents: k/2 and its derived value are
// deleted together with the derived value of k/1.
func TestRevertDeletesTransitiveDependents(t *testing.T) {
	_, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/0": {Deps: []string{"any:d/"}}, "k/1": {V: 1, Items: []string{"a", "b"}}}); err != nil { // b needs k/0
		t.Fatal(err)
	}
	before := content(w.exists)
	w.outcome = func(op, key string) outcome {
		if op == "DELETE" && key == "k/0" {
			w.outcome = nil
			return failsBefore
		}
		return succeeds
	}
	err := commit(map[string]*spec{"k/1": {V: 1}, "k/2": {Deps: []string{"d/k1/b"}, Items: []string{"b"}}}, WithRevert())
	if te := (*TransactionError)(nil); !errors.As(err, &te) || len(te.Errors) != 1 || te.Errors[0].Key != "k/0" {
		t.Errorf("error %v", err)
	}
	if after := content(w.exists); !slices.Equal(after, before) {
		t.Errorf("reverted to %q, was %q", after, before)
	}
}

// A failed value that the transaction will change does not count as a member of its old cycle.
func TestCycleIgnoresFailedMemberThatWillChange(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/2": {}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op == "DELETE" && key == "d/r1/a" {
			return failsAfter
		}
		return succeeds
	}
	if err := commit(map[string]*spec{
		"k/2": {Deps: []string{"r/1", "k/1"}}, // k/1 is missing, r/1 will be deleted
		"r/1": {Deps: []string{"k/2"}, Items: []string{"a"}},
	}); err == nil {
		t.Fatal("no error")
	}
	w.outcome = nil
	w.between = func(op, key string) {
		if n, _ := s.graph.Get("k/2"); op+" "+key == "CREATE r/1" && n.State() == pb.ValueState_CONFIGURED {
			t.Error("k/2 is configured before r/1, which no longer depends on it")
		}
	}
	w.ops = nil
	if err := commit(map[string]*spec{"k/1": {}, "r/1": {V: 1, Deps: []string{"k/1"}, Items: []string{"a"}}}); err != nil {
		t.Error(err)
	}
	if !slices.Contains(w.ops, "CREATE r/1") {
		t.Errorf("calls %q", w.ops)
	}
	wantState(t, s, "k/2", pb.ValueState_CONFIGURED)
}

// After a failed deletion, the value and its properties are unavailable.
func TestPropertyOfFailedDeletionIsUnavailable(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/0": {Items: []string{"p"}}, "r/1": {Deps: []string{"p/k0/p"}}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op == "DELETE" && key == "k/0" {
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"k/0": nil}); err == nil {
		t.Fatal("no error")
	}
	wantState(t, s, "r/1", pb.ValueState_PENDING, "0 p/k0/p")
	w.outcome = nil
	if err := commit(map[string]*spec{"k/0": {Items: []string{"p"}}}); err != nil {
		t.Fatal(err)
	}
	wantState(t, s, "p/k0/p", pb.ValueState_CONFIGURED)
	wantState(t, s, "r/1", pb.ValueState_CONFIGURED)
}

// After a failed deletion, a value counts as a member of its future cycle, not of its old one: k/1 no
// longer needs k/0 and is created first.
func TestCycleUsesWantedDependenciesOfFailedMember(t *testing.T) {
	type values = map[string]*spec
	k0 := &spec{Deps: []string{"r/0", "k/1"}}
	alone := values{"k/0": k0, "k/1": {V: 1, Deps: []string{"any:k/"}}}
	part := values{"k/0": k0, "k/1": {V: 1, Deps: []string{"any:k/", "r/0"}, Items: []string{"a"}}, "r/0": {}}
	for name, tc := range map[string]struct {
		first values
		op    string
		fate  outcome
		fail  []values // committed one after the other
	}{
		"re-created, still there":              {alone, "DELETE k/1", failsBefore, []values{{"k/1": {}}}},
		"re-created, gone":                     {alone, "DELETE k/1", failsAfter, []values{{"k/1": {}}}},
		"postponed, then re-created":           {part, "DELETE d/k1/a", failsBefore, []values{{"r/0": nil}, {"k/1": {}}}},
		"postponed, then without derived ones": {part, "DELETE d/k1/a", failsBefore, []values{{"r/0": nil}, {"k/1": {V: 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, commit := newWorld(t)
			must := func(v values) {
				t.Helper()
				if err := commit(v); err != nil {
					t.Fatal(err)
				}
			}
			must(tc.first)
			for _, v := range tc.fail {
				w.outcome = func(op, key string) outcome {
					if op+" "+key == tc.op {
						return tc.fate
					}
					return succeeds
				}
				if err := commit(v); err == nil {
					t.Fatal("no error")
				}
			}
			w.outcome = nil
			wantState(t, s, "k/0", pb.ValueState_PENDING, "0 r/0", "1 k/1")
			must(values{"r/0": {}})
			wantState(t, s, "k/0", pb.ValueState_PENDING, "1 k/1")
			must(tc.fail[len(tc.fail)-1])
			wantState(t, s, "k/0", pb.ValueState_CONFIGURED)
			wantState(t, s, "k/1", pb.ValueState_CONFIGURED)
		})
	}
}

// The deletion of r/2 leads to the creation of its new dependency: r/1, which failed before and needs any
// of r/, is retried. r/2 is then created again.
func TestValueIsRecreatedIfItsDeletionMeetsItsDependencies(t *testing.T) {
	s, w, commit := newWorld(t)
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "CREATE r/1" {
			return failsAfter
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"r/0": {}, "r/1": {Deps: []string{"any:r/"}, Items: []string{"a"}}, "r/2": {}}); err == nil {
		t.Fatal("no error")
	}
	w.outcome, w.ops = nil, nil
	if err := commit(map[string]*spec{"r/2": {Deps: []string{"any:d/"}}}); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"r/0", "r/1", "r/2", "d/r1/a"} {
		wantState(t, s, key, pb.ValueState_CONFIGURED)
	}
	if _, ok := w.exists["r/2"]; !ok {
		t.Errorf("calls %q, southbound has %q", w.ops, content(w.exists))
	}
}

// If a member of a cycle cannot be created, the members created before are deleted. All are created when
// the failed one succeeds, or in order when it leaves the cycle.
func TestCycleIsDeletedIfAMemberFails(t *testing.T) {
	for name, tc := range map[string]struct {
		fate  outcome
		state pb.ValueState
		again *spec // k/0
		want  []string
	}{
		"fails, the same again":     {failsBefore, pb.ValueState_FAILED, &spec{Deps: []string{"k/1"}}, []string{"CREATE k/0", "CREATE k/1"}},
		"fails, left behind":        {failsAfter, pb.ValueState_FAILED, &spec{Deps: []string{"k/1"}}, []string{"CREATE k/1"}},
		"fails, then needs nothing": {failsBefore, pb.ValueState_FAILED, &spec{}, []string{"CREATE k/0", "CREATE k/1"}},
		"is not supported":          {refuses, pb.ValueState_UNIMPLEMENTED, &spec{}, []string{"CREATE k/0", "CREATE k/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, commit := newWorld(t)
			if err := commit(map[string]*spec{"k/0": {Deps: []string{"k/1"}}}); err != nil {
				t.Fatal(err)
			}
			w.outcome = func(op, key string) outcome {
				if op+" "+key == "CREATE k/0" {
					return tc.fate
				}
				return succeeds
			}
			if err := commit(map[string]*spec{"k/1": {Deps: []string{"k/0"}}}); err == nil {
				t.Fatal("no error")
			}
			if want := []string{"CREATE k/1", "CREATE k/0", "DELETE k/1"}; !slices.Equal(w.ops, want) {
				t.Errorf("calls %q, want %q", w.ops, want)
			}
			wantState(t, s, "k/0", tc.state)
			wantState(t, s, "k/1", pb.ValueState_PENDING, "0 k/0")
			w.outcome, w.ops = nil, nil
			if err := commit(map[string]*spec{"k/0": tc.again}); err != nil {
				t.Error(err)
			}
			if !slices.Equal(w.ops, tc.want) {
				t.Errorf("calls %q, want %q", w.ops, tc.want)
			}
			wantState(t, s, "k/0", pb.ValueState_CONFIGURED)
			wantState(t, s, "k/1", pb.ValueState_CONFIGURED)
		})
	}
}

// The same for members that depend on the failed one indirectly.
func TestCycleIsDeletedIfAnIndirectMemberFails(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/0": {Deps: []string{"k/2"}}, "r/0": {Deps: []string{"k/0"}}}); err != nil {
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "CREATE k/0" {
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"k/2": {Deps: []string{"r/0"}}}); err == nil {
		t.Fatal("no error")
	}
	if want := []string{"CREATE k/2", "CREATE k/0", "DELETE k/2"}; !slices.Equal(w.ops, want) {
		t.Errorf("calls %q, want %q", w.ops, want)
	}
	wantState(t, s, "k/2", pb.ValueState_PENDING, "0 r/0")
	w.outcome = nil
	if err := commit(map[string]*spec{"k/0": {}}); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"k/0", "r/0", "k/2"} {
		wantState(t, s, key, pb.ValueState_CONFIGURED)
	}
}

// A value is deleted because its dependency is missing. It is created again when its deletion leads to the
// creation of that dependency: k/2 needs any of k/.
func TestCycleMemberIsRecreatedAfterAnotherWasMissing(t *testing.T) {
	for _, kind := range []string{"k/", "r/"} {
		s, w, commit := newWorld(t)
		if err := commit(map[string]*spec{kind + "0": {}, kind + "1": {Deps: []string{kind + "2"}}, kind + "2": {Deps: []string{"any:" + kind}}}); err != nil {
			t.Fatal(err)
		}
		delete(w.exists, kind+"2")
		if err := commit(nil, WithResync(DownstreamResync)); err != nil {
			t.Error(err)
		}
		for _, key := range []string{kind + "0", kind + "1", kind + "2"} {
			wantState(t, s, key, pb.ValueState_CONFIGURED)
		}
	}
}

// A dependency is lost while the value is being created: k/0 needs d/k1/b, which failed, and is re-evaluated
// because of d/k2/b, which needs k/0.
func TestValueIsDeletedIfItsDependencyVanishesDuringCreate(t *testing.T) {
	s, w, commit := newWorld(t)
	if err := commit(map[string]*spec{"k/1": {Items: []string{"a", "b"}}, "k/2": {V: 1}}); err != nil { // b needs k/0
		t.Fatal(err)
	}
	w.outcome = func(op, key string) outcome {
		if op+" "+key == "CREATE d/k1/b" {
			return failsBefore
		}
		return succeeds
	}
	if err := commit(map[string]*spec{"k/0": {Deps: []string{"d/k1/b", "any:d/"}}, "k/2": {V: 3, Items: []string{"b"}}}); err == nil {
		t.Error("no error")
	}
	wantState(t, s, "k/0", pb.ValueState_PENDING, "0 d/k1/b")
	wantState(t, s, "d/k2/b", pb.ValueState_PENDING, "0 k/0")
	w.outcome = nil
	if err := commit(nil, WithResync(DownstreamResync)); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"k/0", "d/k1/b", "d/k2/b"} {
		wantState(t, s, key, pb.ValueState_CONFIGURED)
	}
}

// A value that is postponed and then deleted in the same transaction is not created in between, although
// derived values of k/0 still satisfy r/2 when it is postponed.
func TestPostponedValueIsNotRecreatedBeforeItsDeletion(t *testing.T) {
	_, w, commit := newWorld(t)
	for _, values := range []map[string]*spec{
		{"k/0": {V: 2, Deps: []string{"k/0"}, Items: []string{"a", "b"}}, "k/2": {Deps: []string{"any:d/"}}, "r/2": {Deps: []string{"any:d/"}, Items: []string{"b"}}}, // b needs k/0
		{"r/1": {Deps: []string{"any:d/", "r/2"}}},
		{"k/0": nil, "k/1": {Deps: []string{"k/2"}, Items: []string{"a"}}, "r/2": nil},
	} {
		w.ops = nil
		if err := commit(values); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(w.ops, "CREATE r/2") {
		t.Errorf("calls %q", w.ops)
	}
}

// An update moves a value into a cycle with k/0, which failed before. k/0 is retried; if it fails again,
// the value is deleted.
func TestUpdateIntoCycleRetriesFailedMember(t *testing.T) {
	for name, tc := range map[string]struct {
		again outcome
		want  []string
		state pb.ValueState
	}{
		"comes":       {succeeds, []string{"UPDATE r/1", "CREATE k/0", "CREATE k/1"}, pb.ValueState_CONFIGURED},
		"fails again": {failsBefore, []string{"UPDATE r/1", "CREATE k/0", "DELETE r/1"}, pb.ValueState_PENDING},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, commit := newWorld(t)
			fate := failsBefore
			w.outcome = func(op, key string) outcome {
				if op+" "+key == "CREATE k/0" {
					return fate
				}
				return succeeds
			}
			if err := commit(map[string]*spec{"k/0": {Deps: []string{"r/1", "k/1"}}, "k/1": {Deps: []string{"k/0"}}, "r/1": {V: 1}}); err == nil {
				t.Fatal("no error")
			}
			fate, w.ops = tc.again, nil
			err := commit(map[string]*spec{"r/1": {V: 2, Deps: []string{"k/1"}}})
			if (err == nil) != (tc.again == succeeds) {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(w.ops, tc.want) {
				t.Errorf("calls %q, want %q", w.ops, tc.want)
			}
			for _, key := range []string{"k/1", "r/1"} {
				if st := s.ValueStatus(key).Value.State; st != tc.state {
					t.Errorf("%s is %v", key, st)
				}
			}
		})
	}
}
