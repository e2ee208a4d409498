package delta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func (k Kind) String() string {
	return [...]string{"add", "change", "remove"}[k]
}

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
	if got := fmt.Sprint(plan.Of(Add)[0].Key, plan.Of(Remove)[0].Key); got != "2 1" || len(plan) != 2 {
		t.Errorf("got %v of %v", got, plan)
	}
}

// The steps of a plan turn the actual side into the desired one, with at most one step per key.
func TestPlanMakesBothSidesEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.MapOf(rapid.IntRange(0, 9), rapid.IntRange(0, 3))
		actual, desired := side.Draw(t, "actual"), side.Draw(t, "desired")
		now := maps.Clone(actual)
		plan := Between(actual, desired, same)
		for _, s := range plan {
			have, exists := now[s.Key]
			if exists != (s.Kind != Add) || exists && have != s.Old {
				t.Fatalf("step %+v, but the actual value is %v, %v", s, have, exists)
			}
			if s.Kind == Remove {
				delete(now, s.Key)
			} else {
				now[s.Key] = s.New
			}
		}
		if !maps.Equal(now, desired) {
			t.Fatalf("%v leads to %v, want %v", plan, now, desired)
		}
	})
}
