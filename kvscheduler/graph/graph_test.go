package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// model is the graph as plain maps.
type model struct {
	nodes    map[string]int
	exact    map[[2]string]bool
	prefixes map[[2]string]bool
}

func (m model) clone() model {
	return model{maps.Clone(m.nodes), maps.Clone(m.exact), maps.Clone(m.prefixes)}
}

func (m model) needers(key string) []string {
	found := map[string]bool{}
	for e := range m.exact {
		if e[0] == key {
			found[e[1]] = true
		}
	}
	for e := range m.prefixes {
		if strings.HasPrefix(key, e[0]) {
			found[e[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

var keys = []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "a/bc", "ab", "b", "b/a", "b/b", "é", "é/a"}

func check(t *rapid.T, what string, g *Graph[int], m model) {
	if g.Len() != len(m.nodes) {
		t.Fatalf("%s: %d nodes, want %d", what, g.Len(), len(m.nodes))
	}
	for _, key := range keys {
		n, ok := g.Get(key)
		if want, wantOK := m.nodes[key]; n != want || ok != wantOK {
			t.Fatalf("%s: node %q is %d %v, want %d %v", what, key, n, ok, want, wantOK)
		}
		want := m.needers(key)
		if got := g.Needers(nil, key); !slices.Equal(got, want) {
			t.Fatalf("%s: %q is needed by %q, want %q", what, key, got, want)
		}
		if g.HasNeeders(key) != (len(want) > 0) {
			t.Fatalf("%s: HasNeeders(%q) is %v", what, key, !(len(want) > 0))
		}
		var got, in []string
		g.Ascend(key, func(k string, _ int) bool { got = append(got, k); return true })
		for k := range m.nodes {
			if strings.HasPrefix(k, key) {
				in = append(in, k)
			}
		}
		if slices.Sort(in); !slices.Equal(got, in) {
			t.Fatalf("%s: prefix %q has %q, want %q", what, key, got, in)
		}
		after := slices.Sorted(maps.Keys(m.nodes))
		i, _ := slices.BinarySearch(after, key)
		if k, _, ok := g.Seek(key); ok != (i < len(after)) || ok && k != after[i] {
			t.Fatalf("%s: Seek(%q) is %q %v", what, key, k, ok)
		}
		if k, _, ok := g.SeekBack(key); ok != (i > 0) || ok && k != after[i-1] {
			t.Fatalf("%s: SeekBack(%q) is %q %v", what, key, k, ok)
		}
	}
}

// W13: whatever is added and removed in whatever order, edges and copies are
// what a plain model says.
func TestW13GraphIsLikeAModelOfPlainMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New[int]()
		m := model{map[string]int{}, map[[2]string]bool{}, map[[2]string]bool{}}
		type pair struct {
			g *Graph[int]
			m model
		}
		var copies []pair
		key := rapid.SampledFrom(keys)
		t.Repeat(map[string]func(*rapid.T){
			"Set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				g.Set(k, v)
				m.nodes[k] = v
			},
			"Delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				g.Delete(k)
				delete(m.nodes, k)
			},
			"Need": func(t *rapid.T) {
				e := [2]string{key.Draw(t, "target"), key.Draw(t, "source")}
				g.Need(e[0], e[1])
				m.exact[e] = true
			},
			"Unneed": func(t *rapid.T) {
				e := [2]string{key.Draw(t, "target"), key.Draw(t, "source")}
				g.Unneed(e[0], e[1])
				delete(m.exact, e)
			},
			"NeedPrefix": func(t *rapid.T) {
				e := [2]string{key.Draw(t, "target"), key.Draw(t, "source")}
				g.NeedPrefix(e[0], e[1])
				m.prefixes[e] = true
			},
			"UnneedPrefix": func(t *rapid.T) {
				e := [2]string{key.Draw(t, "target"), key.Draw(t, "source")}
				g.UnneedPrefix(e[0], e[1])
				delete(m.prefixes, e)
			},
			"Copy": func(t *rapid.T) { copies = append(copies, pair{g.Copy(), m.clone()}) },
			"": func(t *rapid.T) {
				check(t, "graph", g, m)
				for i, c := range copies {
					check(t, fmt.Sprintf("copy %d", i), c.g, c.m)
				}
			},
		})
	})
}
