// Package parallel divides the work on long lists among processors.
package parallel

import (
	"runtime"
	"sync"
)

// Worth is the minimum length of a list for dividing the work.
const Worth = 1000

// Collect calls do for consecutive ranges of 0 to n, concurrently if n is large, and returns the
// results in the order of the ranges.
func Collect[T any](n int, do func(begin, end int) T) []T {
	parts := 1
	if n >= Worth {
		parts = min(runtime.GOMAXPROCS(0), 4, n/(Worth/2)) // more are hardly faster and would starve other work
	}
	results := make([]T, parts)
	var others sync.WaitGroup
	for i := 1; i < parts; i++ {
		others.Go(func() { results[i] = do(i*n/parts, (i+1)*n/parts) })
	}
	results[0] = do(0, n/parts)
	others.Wait()
	return results
}
