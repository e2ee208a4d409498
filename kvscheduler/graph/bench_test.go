package graph

import (
	"fmt"
	"testing"
)

// BenchmarkReplaceOne replaces one of N nodes and publishes the graph, as each transaction does, with and
// without a View per change.
func BenchmarkReplaceOne(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000, 200_000} {
		for _, seen := range []bool{false, true} {
			b.Run(fmt.Sprintf("N=%d/seen=%v", n, seen), func(b *testing.B) {
				g := New[*number]()
				keys := make([]string, n)
				for i := range keys {
					keys[i] = fmt.Sprintf("config/interface/tap%06d", i)
					g.Set(&number{keys[i], i})
				}
				g.Publish()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					old, _ := g.Get(keys[i*7919%n])
					g.Set(&number{old.key, i})
					g.Publish()
					if seen && g.View().Len() != n {
						b.Error(g.View().Len())
					}
				}
			})
		}
	}
}
