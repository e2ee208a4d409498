package graph

import (
	"fmt"
	"testing"
)

// BenchmarkReplaceOne replaces one of N nodes of a graph of which somebody has a
// copy, as every transaction does.
func BenchmarkReplaceOne(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000, 200_000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			g := New[*number]()
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("config/interface/tap%06d", i)
				g.Set(&number{keys[i], i})
			}
			var published *Graph[*number]
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				old, _ := g.Get(keys[i*7919%n])
				g.Set(&number{old.key, i})
				published = g.Copy()
			}
			if published.Len() != n {
				b.Error(published.Len())
			}
		})
	}
}
