package parallel_test

import (
	"testing"

	"github.com/contiv/contiv/internal/lib/parallel"
)

// The ranges are in order and cover each element once.
func TestRangesCoverAll(t *testing.T) {
	for _, n := range []int{0, 1, parallel.Worth - 1, parallel.Worth, parallel.Worth + 1, 12_345} {
		next := 0
		for _, r := range parallel.Collect(n, func(begin, end int) [2]int { return [2]int{begin, end} }) {
			if r[0] != next || r[1] < r[0] {
				t.Errorf("of %d: %v, expected it to begin with %d", n, r, next)
			}
			next = r[1]
		}
		if next != n {
			t.Errorf("of %d: ends at %d", n, next)
		}
	}
}
