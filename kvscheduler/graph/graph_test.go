package graph

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// number is a node with a value.
type number struct {
	key string
	n   int
}

func (n number) Key() string { return n.key }

// model is a graph of builtin maps.
type model struct {
	nodes    map[string]number
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

func check(t *rapid.T, what string, g *Graph[number], m model) {
	if g.Len() != len(m.nodes) {
		t.Fatalf("%s: %d nodes, want %d", what, g.Len(), len(m.nodes))
	}
	for _, key := range keys {
		n, ok := g.Get(key)
		if want, wantOK := m.nodes[key]; n != want || ok != wantOK {
			t.Fatalf("%s: node %q is %v %v, want %v %v", what, key, n, ok, want, wantOK)
		}
		want := m.needers(key)
		if got := g.Needers(nil, key); !slices.Equal(got, want) {
			t.Fatalf("%s: %q is needed by %q, want %q", what, key, got, want)
		}
		if g.HasNeeders(key) != (len(want) > 0) {
			t.Fatalf("%s: HasNeeders(%q) is %v", what, key, !(len(want) > 0))
		}
		var got, in []string
		g.Ascend(key, func(k string, _ number) bool { got = append(got, k); return true })
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

// W13: after any sequence of changes, a graph and its copies equal their models.
func TestW13GraphIsLikeAModelOfPlainMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Hashes that differ rarely, or only in their last bits.
		distinct := rapid.SampledFrom([]uint64{1, 2, 3, 1 << 20}).Draw(t, "hashes")
		shift := rapid.SampledFrom([]int{0, 3, 31, 62}).Draw(t, "shift")
		g := newGraph[number](func(key string) uint64 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(key))
			return h.Sum64() % distinct << shift
		}, rapid.SampledFrom([]int{1, 4, listMax}).Draw(t, "nodes of a list"))
		m := model{map[string]number{}, map[[2]string]bool{}, map[[2]string]bool{}}
		type pair struct {
			g *Graph[number]
			m model
		}
		var copies []pair
		g.Publish()
		published := m.clone()
		key := rapid.SampledFrom(keys)
		t.Repeat(map[string]func(*rapid.T){
			"Set": func(t *rapid.T) {
				n := number{key.Draw(t, "key"), rapid.Int().Draw(t, "value")}
				g.Set(n)
				m.nodes[n.key] = n
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
			"Copy":    func(t *rapid.T) { copies = append(copies, pair{g.Copy(), m.clone()}) },
			"Publish": func(t *rapid.T) { g.Publish(); published = m.clone() },
			"View":    func(t *rapid.T) { copies = append(copies, pair{g.View(), published}) },
			"": func(t *rapid.T) {
				check(t, "graph", g, m)
				for i, c := range copies {
					check(t, fmt.Sprintf("copy %d", i), c.g, c.m)
				}
			},
		})
	})
}

// Lists fill, are split and shrink again, in a graph and its copies.
func TestManyNodesAreLikeAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type pair struct {
		g *Graph[number]
		m map[string]number
	}
	now := pair{New[number](), map[string]number{}}
	var all []pair
	var published map[string]number
	const keys = 4_000
	for i := range 60_000 {
		key := fmt.Sprint(rnd.IntN(keys))
		grows := i/15_000%2 == 0
		if _, ok := now.m[key]; ok && rnd.IntN(10) < 4 || !grows {
			now.g.Delete(key)
			delete(now.m, key)
		} else {
			now.g.Set(number{key, i})
			now.m[key] = number{key, i}
		}
		switch i % 5_000 {
		case 0:
			all = append(all, pair{now.g.Copy(), maps.Clone(now.m)})
		case 1_000, 2_000, 3_000:
			now.g.Publish()
			published = maps.Clone(now.m)
		case 1_000 + rememberedChanges/2, 2_000 + 2*rememberedChanges:
			all = append(all, pair{now.g.View(), published})
		}
	}
	all = append(all, now)
	for i, p := range all {
		if p.g.Len() != len(p.m) {
			t.Errorf("copy %d has %d nodes, want %d", i, p.g.Len(), len(p.m))
		}
		for k := range keys {
			key := fmt.Sprint(k)
			got, ok := p.g.Get(key)
			if want, wantOK := p.m[key]; got != want || ok != wantOK {
				t.Fatalf("copy %d: %s is %v %v, want %v %v", i, key, got, ok, want, wantOK)
			}
		}
	}
}

// A graph with few remaining nodes has no branches.
func TestDeletesTakeBranchesAway(t *testing.T) {
	g := New[number]()
	const n = 10_000
	for i := range n {
		g.Set(number{fmt.Sprint(i), i})
	}
	for i := 1; i < n; i++ {
		g.Delete(fmt.Sprint(i))
	}
	if got, ok := g.Get("0"); !ok || g.Len() != 1 || len(g.nodes.root.nodes) != 1 || g.nodes.root.children != nil {
		t.Errorf("left are %v %v, below the root with %d nodes", got, ok, len(g.nodes.root.nodes))
	}
}

// Copies may be read, copied and changed while their origin changes. The race detector must find nothing.
func TestCopiesWithOtherGoroutines(t *testing.T) {
	g := New[number]()
	published := make(chan *Graph[number], 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range published {
			n, before := p.Len(), len(p.Needers(nil, "0"))
			c := p.Copy()
			c.Set(number{"other", 1})
			c.Need("0", "other")
			c.Delete("0")
			if p.Len() != n || len(p.Needers(nil, "0")) != before {
				t.Errorf("the origin has %d nodes and %d edges, not %d and %d", p.Len(), len(p.Needers(nil, "0")), n, before)
			}
			i := 0
			c.Ascend("", func(key string, got number) bool {
				if got.key != key {
					t.Errorf("node %v has the key %s", got, key)
				}
				i++
				return true
			})
			if i != n { // one node was added and one deleted
				t.Errorf("the copy has %d nodes, want %d", i, n)
			}
		}
	}()
	for i := range 2_000 {
		g.Set(number{fmt.Sprint(i), i})
		g.Need("0", fmt.Sprint(i))
		published <- g.Copy()
	}
	close(published)
	<-done
}

// Readers see the last published graph while it changes.
func TestViewsOfOtherGoroutines(t *testing.T) {
	const nodes = 200
	g := New[number]()
	for i := range nodes {
		g.Set(number{fmt.Sprint(i), 0})
	}
	g.Publish()
	stop, done := make(chan struct{}), make(chan int)
	for range 2 {
		go func() {
			looks := 0
			for on := true; on; looks++ {
				select {
				case <-stop:
					on = false
				default:
				}
				view := g.View()
				round, _ := view.Get("0")
				seen := 0
				view.Ascend("", func(key string, n number) bool {
					if n.n != round.n {
						t.Errorf("%s is of round %d, others of %d", key, n.n, round.n)
					}
					seen++
					return true
				})
				if needers := view.Needers(nil, "0"); seen != nodes || view.Len() != nodes || len(needers) != round.n%10 {
					t.Errorf("round %d has %d nodes, %d of them in order, and %d that need the first", round.n, view.Len(), seen, len(needers))
				}
			}
			done <- looks
		}()
	}
	for round := 1; round <= 2_000; round++ {
		some := []int{1, rememberedChanges / 2, nodes}[round%3] // intermediate changes are undone at the end of the round
		for i := range some {
			g.Delete(fmt.Sprint(i))
			g.Set(number{fmt.Sprint(i), -round})
		}
		for i := range nodes {
			g.Set(number{fmt.Sprint(i), round})
		}
		if round%10 == 0 {
			for i := range 9 {
				g.Unneed("0", fmt.Sprint(i))
			}
		} else {
			g.Need("0", fmt.Sprint(round%10-1))
		}
		g.Publish()
	}
	close(stop)
	if looks := <-done + <-done; looks == 0 {
		t.Error("no reader saw the graph")
	}
}
