package descriptor

import (
	"maps"
	"slices"
)

// SameParts reports whether the lists have the same set of elements.
func SameParts[T any, P comparable](a, b []T, of func(T) P) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.EqualFunc(a, b, func(x, y T) bool { return of(x) == of(y) }) {
		return true
	}
	return maps.Equal(counted(a, of), counted(b, of))
}

func counted[T any, P comparable](list []T, of func(T) P) map[P]int {
	count := make(map[P]int, len(list))
	for _, part := range list {
		count[of(part)]++
	}
	return count
}
