package kvscheduler

import (
	"slices"
	"testing"
)

// A cycle through derived values that an outside value supports comes down in
// order when that goes: each derived value before its base value, even if the way
// to the base value led through it.
func TestCycleThroughDerivedValuesComesDownInOrder(t *testing.T) {
	s := newScheduler(t)
	w := &world{exists: map[string]spec{}}
	w.register(s)
	commit := func(values map[string]*spec) {
		t.Helper()
		txn := s.NewTransaction()
		for key, sp := range values {
			if sp == nil {
				txn.Delete(key)
			} else {
				txn.Put(key, sp.value())
			}
		}
		must(t, txn)
	}
	commit(map[string]*spec{
		"k/0": {},
		"k/1": {Items: []string{"a", "b"}},
		"k/2": {Deps: []string{"r/1"}, Items: []string{"a", "e"}}, // e needs b of k/1
		"r/1": {Deps: []string{"any:d/"}},
	})
	if len(w.exists) != 8 {
		t.Fatalf("there are %q", content(w.exists))
	}
	w.ops = nil
	commit(map[string]*spec{"k/1": nil})
	if got := content(w.exists); !slices.Equal(got, []string{`k/0 {"V":0}`}) {
		t.Errorf("left are %q", got)
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
