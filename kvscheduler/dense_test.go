package kvscheduler

import (
	"fmt"
	"testing"
	"time"
)

// denseScheduler has n values below a/ with the dependencies that depsOf returns.
func denseScheduler(t testing.TB, depsOf func(n int) []Dependency, n int) *Scheduler {
	s, sb := newScheduler(t, func(o *Options) { o.History.Disabled = true }), newSouthbound(t)
	deps := depsOf(n)
	sb.register(s, "a", parts{prefix: "a/", depsOf: func(string, string) []Dependency { return deps }})
	return s
}

// anyOfOwnSpace makes every value depend on any of them.
func anyOfOwnSpace(int) []Dependency {
	return []Dependency{{Label: "any", AnyOf: AnyOf{KeyPrefixes: []string{"a/"}}}}
}

// allOfOwnSpace makes every value depend on all of them.
func allOfOwnSpace(n int) (deps []Dependency) {
	for i := range n {
		deps = append(deps, Dependency{Label: fmt.Sprint(i), Key: fmt.Sprintf("a/%06d", i)})
	}
	return deps
}

// denseLife creates n values in one transaction and one by one, updates them and deletes them. It returns
// the time of the first creation.
func denseLife(t testing.TB, s *Scheduler, n int) (created time.Duration) {
	commit := func(values func(txn *Transaction, key string), together bool) {
		txn := s.NewTransaction()
		for i := range n {
			values(txn, fmt.Sprintf("a/%06d", i))
			if !together {
				must(t, txn)
				txn = s.NewTransaction()
			}
		}
		must(t, txn)
	}
	put := func(v string) func(txn *Transaction, key string) {
		return func(txn *Transaction, key string) { txn.Put(key, val(v)) }
	}
	for _, together := range []bool{true, false} {
		start := time.Now()
		commit(put("1"), together)
		if together {
			created = time.Since(start)
		}
		commit(put("2"), together)
		commit(func(txn *Transaction, key string) { txn.Delete(key) }, together)
	}
	return created
}

// BenchmarkDense runs denseLife. It fails if the time grows faster than the square of the number of edges.
func BenchmarkDense(b *testing.B) {
	for _, bm := range []struct {
		name  string
		deps  func(n int) []Dependency
		sizes []int
		edges func(n int) int
	}{
		{"any", anyOfOwnSpace, []int{125, 250, 500, 1000}, func(n int) int { return n }},
		{"all", allOfOwnSpace, []int{25, 50, 100}, func(n int) int { return n * n }},
	} {
		last, lastEdges := 0.0, 0
		if testing.Short() { // only shows that the benchmark works
			bm.sizes = bm.sizes[:2]
		}
		for _, n := range bm.sizes {
			b.Run(fmt.Sprintf("%s/N=%d", bm.name, n), func(b *testing.B) {
				var created time.Duration
				for b.Loop() {
					s := denseScheduler(b, bm.deps, n)
					created = denseLife(b, s, n)
					_ = s.Close()
				}
				b.ReportMetric(created.Seconds()*1000, "ms-create")
				took, edges := b.Elapsed().Seconds()/float64(b.N), bm.edges(n)
				growth := float64(edges) / float64(max(lastEdges, 1))
				if slack := 2.0; lastEdges > 0 && !testing.Short() && took > slack*last*growth*growth {
					b.Errorf("%d edges take %.3f s and %d take %.3f s: faster than quadratic growth", lastEdges, last, edges, took)
				}
				last, lastEdges = took, edges
				b.ReportMetric(took*1000, "ms")
			})
		}
	}
}

// The analysis of cycles is not repeated for each dependent of each deletion: a thousand values that depend
// on any of each other do not take minutes.
func TestDenseValuesTakePolynomialTime(t *testing.T) {
	start := time.Now()
	denseLife(t, denseScheduler(t, anyOfOwnSpace, 300), 300)
	denseLife(t, denseScheduler(t, allOfOwnSpace, 40), 40)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
