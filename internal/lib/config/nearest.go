package config

import (
	"fmt"
	"math"
	"strings"
)

// hint suggests a known key for an unknown one.
func hint(key string, known []string) string {
	if nearest, ok := Nearest(key, known); ok {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "known keys here are " + strings.Join(known, ", ")
}

// Nearest returns the known word that word is most likely a typo of; ok is false if none is
// similar. A common namespace or directory does not make words similar.
func Nearest(word string, known []string) (nearest string, ok bool) {
	best := math.MaxInt
	for _, candidate := range known {
		w, k := strings.ToLower(word), strings.ToLower(candidate)
		enough := 2 + (len(w)-sharedDirectory(w, k))/4 // so many edits make a different word
		if d := distance(w, k); d < min(best, enough) {
			best, nearest, ok = d, candidate, true
		}
	}
	return nearest, ok
}

// sharedDirectory returns the length of the common directory of two paths.
func sharedDirectory(a, b string) (length int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '/' {
			length = i + 1
		}
	}
	return length
}

// distance is the number of insertions, deletions, replacements and swaps of neighbouring
// characters that turn a into b.
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
