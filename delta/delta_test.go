package delta

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func same[V comparable](a, b V) bool { return a == b }

func TestOrder(t *testing.T) {
	actual := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}
	desired := map[string]int{"c": 1, "d": 2, "e": 2, "f": 2}
	for _, test := range []struct {
		order Order[string]
		want  string
	}{
		{Order[string]{Keys: cmp.Compare[string]}, "[add e add f change d remove b remove a]"},
		{Order[string]{Keys: cmp.Compare[string], RemoveFirst: true}, "[remove b remove a add e add f change d]"},
	} {
		plan := Between(actual, desired, same)
		plan.Sort(test.order)
		var got []string
		for _, s := range plan {
			got = append(got, fmt.Sprint(s.Kind, " ", s.Key))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%+v: got %v, want %s", test.order.RemoveFirst, got, test.want)
		}
	}
}

func TestSorted(t *testing.T) {
	gone, added := Sorted([]int{1, 2, 4, 7}, []int{2, 3, 7, 9}, cmp.Compare)
	if !slices.Equal(gone, []int{1, 4}) || !slices.Equal(added, []int{3, 9}) {
		t.Errorf("gone %v, added %v", gone, added)
	}
}

func TestMembersOnly(t *testing.T) {
	plan := BetweenSets(map[int]bool{1: true, 2: false}, map[int]bool{1: false, 2: true, 3: false})
	plan.Sort(Order[int]{})
	if got := fmt.Sprint(plan.Of(Add).Keys(), plan.Of(Remove).Keys()); got != "[2] [1]" || len(plan) != 2 {
		t.Errorf("got %v of %v", got, plan)
	}
}

// A step that fails keeps no other from being done, and is tried again.
func TestApplyKeepsWhatFailed(t *testing.T) {
	tracker := New[string, int](same, Order[string]{})
	for i, key := range []string{"a", "b", "c"} {
		tracker.SetDesired(key, i)
	}
	refused := errors.New("refused")
	err := tracker.Apply(func(s Step[string, int]) error {
		if s.Key == "b" {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || !slices.Equal(tracker.Plan().Keys(), []string{"b"}) {
		t.Errorf("error %v, pending %v", err, tracker.Plan())
	}
	if err := tracker.Apply(func(Step[string, int]) error { return nil }); err != nil || !tracker.InSync() {
		t.Errorf("error %v, pending %v", err, tracker.Plan())
	}
}

func TestAtOnceIsAllOrNothing(t *testing.T) {
	tracker := New[string, int](same, Order[string]{})
	tracker.SetDesired("a", 1)
	tracker.SetActual("b", 1)
	refused := errors.New("refused")
	if err := tracker.ApplyAtOnce(func(Plan[string, int]) error { return refused }); !errors.Is(err, refused) || len(tracker.Plan()) != 2 {
		t.Errorf("error %v, pending %v", err, tracker.Plan())
	}
	if err := tracker.ApplyAtOnce(func(p Plan[string, int]) error { return nil }); err != nil || !tracker.InSync() {
		t.Errorf("error %v, pending %v", err, tracker.Plan())
	}
	called := false
	_ = tracker.ApplyAtOnce(func(Plan[string, int]) error { called = true; return refused })
	if called {
		t.Error("called without a step")
	}
}

// Whatever happens, in whatever order: the Tracker has exactly the steps that a full
// comparison finds, and executing them leads to the desired state.
func TestTrackerAgreesWithComparison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := New[int, int](same, Order[int]{Keys: cmp.Compare[int]})
		desired, actual := map[int]int{}, map[int]int{}
		key, value := rapid.IntRange(0, 7), rapid.IntRange(0, 2)
		t.Repeat(map[string]func(*rapid.T){
			"set desired": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				desired[k] = v
				tracker.SetDesired(k, v)
			},
			"delete desired": func(t *rapid.T) {
				k := key.Draw(t, "key")
				delete(desired, k)
				tracker.DeleteDesired(k)
			},
			"set actual": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				actual[k] = v
				tracker.SetActual(k, v)
			},
			"delete actual": func(t *rapid.T) {
				k := key.Draw(t, "key")
				delete(actual, k)
				tracker.DeleteActual(k)
			},
			"resync": func(t *rapid.T) {
				actual = rapid.MapOf(key, value).Draw(t, "actual")
				tracker.Resync(maps.Clone(actual))
			},
			"apply in part": func(t *rapid.T) {
				_ = tracker.Apply(func(s Step[int, int]) error {
					if rapid.Bool().Draw(t, "refuse") {
						return errors.New("refused")
					}
					if s.Kind == Remove {
						delete(actual, s.Key)
					} else {
						actual[s.Key] = s.New
					}
					return nil
				})
			},
			"apply": func(t *rapid.T) {
				_ = tracker.ApplyAtOnce(func(p Plan[int, int]) error {
					for _, s := range p {
						if s.Kind == Remove {
							delete(actual, s.Key)
						} else {
							actual[s.Key] = s.New
						}
					}
					return nil
				})
				if !maps.Equal(actual, desired) || !tracker.InSync() {
					t.Fatalf("led to %v, want %v", actual, desired)
				}
			},
			"": func(t *rapid.T) {
				want := Between(actual, desired, same)
				want.Sort(Order[int]{Keys: cmp.Compare[int]})
				if got := tracker.Plan(); !slices.Equal(got, want) {
					t.Fatalf("plan %v, want %v", got, want)
				}
				if tracker.InSync() != (len(want) == 0) {
					t.Fatalf("in sync: %v with %v", tracker.InSync(), want)
				}
			},
		})
	})
}
