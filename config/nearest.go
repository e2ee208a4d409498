package config

import (
	"fmt"
	"strings"
)

// hint says what may have been meant by an unknown key.
func hint(key string, known []string) string {
	if nearest, ok := Nearest(key, known); ok {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "known keys here are " + strings.Join(known, ", ")
}

// Nearest returns the known word that the given one is most likely a mistyped
// form of; ok is false if none is similar.
func Nearest(word string, known []string) (nearest string, ok bool) {
	best := 2 + len(word)/4 // more changes than this make a different word
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < best {
			best, nearest, ok = d, k, true
		}
	}
	return nearest, ok
}

// distance is the number of single-character insertions, deletions,
// replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(last[j]+change, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
