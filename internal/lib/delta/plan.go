package delta

import (
	"cmp"
	"maps"
	"slices"
)

// Kind is the kind of a step.
type Kind int

const (
	Add Kind = iota
	Change
	Remove
)

// Step is one difference.
type Step[K comparable, V any] struct {
	Kind Kind
	Key  K
	// Old is the actual value of steps that change or remove.
	Old V
	// New is the desired value of steps that add or change.
	New V
}

// Plan is a list of steps, at most one per key.
type Plan[K comparable, V any] []Step[K, V]

// Order of steps. The zero value orders by kind: additions, changes, removals. That suits objects
// that refer to each other and may coexist.
type Order[K comparable] struct {
	// RemoveFirst puts removals first. Use it if an old object conflicts with a new one, such as
	// two mappings of one address.
	RemoveFirst bool
	// Keys compares keys within additions and changes; nil: any order. Removals are in reverse
	// order, so that an object is removed before the objects it refers to.
	Keys func(a, b K) int
}

// Between returns the steps from actual to desired.
func Between[K comparable, V any](actual, desired map[K]V, equal func(a, b V) bool) Plan[K, V] {
	var plan Plan[K, V]
	for key, want := range desired {
		switch have, exists := actual[key]; {
		case !exists:
			plan = append(plan, Step[K, V]{Kind: Add, Key: key, New: want})
		case !equal(have, want):
			plan = append(plan, Step[K, V]{Kind: Change, Key: key, Old: have, New: want})
		}
	}
	for key, have := range actual {
		if _, wanted := desired[key]; !wanted {
			plan = append(plan, Step[K, V]{Kind: Remove, Key: key, Old: have})
		}
	}
	return plan
}

// BetweenSets is Between for sets.
func BetweenSets[K comparable](actual, desired map[K]bool) Plan[K, bool] {
	members := func(set map[K]bool) map[K]bool {
		set = maps.Clone(set)
		maps.DeleteFunc(set, func(_ K, member bool) bool { return !member })
		return set
	}
	return Between(members(actual), members(desired), func(a, b bool) bool { return a == b })
}

// Sorted returns the elements that are in only one of two sorted slices. It neither hashes nor
// copies, for lists with many thousands of elements.
func Sorted[T any](before, after []T, compare func(a, b T) int) (gone, added []T) {
	for len(before) > 0 && len(after) > 0 {
		switch c := compare(before[0], after[0]); {
		case c == 0:
			before, after = before[1:], after[1:]
		case c < 0:
			gone, before = append(gone, before[0]), before[1:]
		default:
			added, after = append(added, after[0]), after[1:]
		}
	}
	return append(gone, before...), append(added, after...)
}

// Sort sorts the steps.
func (p Plan[K, V]) Sort(o Order[K]) {
	rank := func(k Kind) int {
		if k == Remove && o.RemoveFirst {
			return -1
		}
		return int(k)
	}
	slices.SortStableFunc(p, func(a, b Step[K, V]) int {
		if c := cmp.Compare(rank(a.Kind), rank(b.Kind)); c != 0 || o.Keys == nil {
			return c
		}
		if a.Kind == Remove {
			return o.Keys(b.Key, a.Key)
		}
		return o.Keys(a.Key, b.Key)
	})
}

// Of returns the steps of one kind, in order.
func (p Plan[K, V]) Of(kind Kind) Plan[K, V] {
	var list Plan[K, V]
	for _, s := range p {
		if s.Kind == kind {
			list = append(list, s)
		}
	}
	return list
}
