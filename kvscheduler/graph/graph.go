package graph

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// Node is an element of a graph. Its key must not change.
type Node interface{ Key() string }

// Graph holds nodes of type N and the edges between their keys. An edge may exist without nodes at its
// ends.
type Graph[N Node] struct {
	nodes trie[N]
	*order
	// shared: another graph uses the same order, so it must be copied before a change.
	shared    bool
	published published[N]
}

// order is the part of a graph that changes only with keys and edges.
type order struct {
	// copying serialises copies of the B-trees, because copying a B-tree changes its bookkeeping.
	copying  sync.Mutex
	keys     *btree.Map[string, struct{}]
	exact    *btree.BTreeG[edge]
	prefixes *btree.BTreeG[edge]
}

// edge: the value with the key source needs target, a key or a key prefix.
type edge struct{ target, source string }

func (a edge) less(b edge) bool {
	if a.target != b.target {
		return a.target < b.target
	}
	return a.source < b.source
}

// New returns an empty graph.
func New[N Node]() *Graph[N] {
	seed := maphash.MakeSeed()
	return newGraph[N](func(key string) uint64 { return maphash.String(seed, key) }, listMax)
}

func newGraph[N Node](hash func(key string) uint64, most int) *Graph[N] {
	// Small B-tree nodes, because a change after a Copy copies all nodes of its path.
	const degree = 8
	opts := btree.Options{NoLocks: true, Degree: 2 * degree}
	return &Graph[N]{
		nodes: newTrie[N](hash, most),
		order: &order{
			keys:     btree.NewMap[string, struct{}](degree),
			exact:    btree.NewBTreeGOptions(edge.less, opts),
			prefixes: btree.NewBTreeGOptions(edge.less, opts),
		},
	}
}

// Copy returns a graph with the same content in O(1). Later changes of one do not affect the other, which
// may belong to another goroutine.
func (g *Graph[N]) Copy() *Graph[N] {
	g.published.mu.Lock()
	defer g.published.mu.Unlock()
	g.shared = true
	return &Graph[N]{nodes: g.nodes.copy(), order: g.order, shared: true}
}

func (g *Graph[N]) change() *order {
	if g.shared {
		old := g.order
		old.copying.Lock()
		defer old.copying.Unlock()
		g.order = &order{keys: old.keys.Copy(), exact: old.exact.Copy(), prefixes: old.prefixes.Copy()}
		g.shared = false
	}
	return g.order
}

// Len returns the number of nodes.
func (g *Graph[N]) Len() int { return g.nodes.len }

// Get returns the node with the key, and whether it exists.
func (g *Graph[N]) Get(key string) (N, bool) { return g.nodes.get(key) }

// Set adds or replaces a node.
func (g *Graph[N]) Set(n N) {
	g.published.mu.Lock()
	old, replaced := g.nodes.set(n)
	if !replaced {
		old = n
	}
	g.remember(old, replaced)
	g.published.mu.Unlock()
	if !replaced {
		g.change().keys.Set(n.Key(), struct{}{})
	}
}

// Delete removes the node with the key, if it exists. Edges stay.
func (g *Graph[N]) Delete(key string) {
	g.published.mu.Lock()
	old, ok := g.nodes.delete(key)
	if ok {
		g.remember(old, true)
	}
	g.published.mu.Unlock()
	if ok {
		g.change().keys.Delete(key)
	}
}

// Ascend visits the nodes with the key prefix in the order of their keys until visit returns false.
// visit must not change the graph.
func (g *Graph[N]) Ascend(prefix string, visit func(key string, n N) bool) {
	g.keys.Ascend(prefix, func(key string, _ struct{}) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		n, _ := g.nodes.get(key)
		return visit(key, n)
	})
}

// Seek returns the node with the first key that is not less than key.
func (g *Graph[N]) Seek(key string) (found string, n N, ok bool) {
	g.keys.Ascend(key, func(k string, _ struct{}) bool {
		found, ok = k, true
		return false
	})
	if ok {
		n, _ = g.nodes.get(found)
	}
	return found, n, ok
}

// SeekBack returns the node with the last key that is less than key.
func (g *Graph[N]) SeekBack(key string) (found string, n N, ok bool) {
	g.keys.Descend(key, func(k string, _ struct{}) bool {
		if k == key {
			return true
		}
		found, ok = k, true
		return false
	})
	if ok {
		n, _ = g.nodes.get(found)
	}
	return found, n, ok
}

// Need adds an edge: source needs the key target. Adding it again has no effect.
func (g *Graph[N]) Need(target, source string) { g.change().exact.Set(edge{target, source}) }

// Unneed removes the edge of Need.
func (g *Graph[N]) Unneed(target, source string) { g.change().exact.Delete(edge{target, source}) }

// NeedPrefix adds an edge: source needs any key with the prefix.
func (g *Graph[N]) NeedPrefix(prefix, source string) { g.change().prefixes.Set(edge{prefix, source}) }

// UnneedPrefix removes the edge of NeedPrefix.
func (g *Graph[N]) UnneedPrefix(prefix, source string) {
	g.change().prefixes.Delete(edge{prefix, source})
}

// Needers appends to dst the sources that need the key, directly or by a prefix, sorted and without
// duplicates. Its cost is proportional to the result.
func (g *Graph[N]) Needers(dst []string, key string) []string {
	start := len(dst)
	dst = needers(g.exact, dst, key)
	if g.prefixes.Len() == 0 {
		return dst
	}
	runs := 0
	if len(dst) > start {
		runs++
	}
	g.needingPrefixes(key, func(target string) bool {
		dst = needers(g.prefixes, dst, target)
		runs++
		return true
	})
	if runs > 1 {
		slices.Sort(dst[start:])
		return dst[:start+len(slices.Compact(dst[start:]))]
	}
	return dst
}

// HasNeeders reports whether a source needs the key, directly or by a prefix.
func (g *Graph[N]) HasNeeders(key string) bool {
	has := false
	g.exact.Ascend(edge{target: key}, func(e edge) bool {
		has = e.target == key
		return false
	})
	if has || g.prefixes.Len() == 0 {
		return has
	}
	g.needingPrefixes(key, func(string) bool {
		has = true
		return false
	})
	return has
}

// needingPrefixes visits the needed prefixes of key, longest first, until visit returns false.
func (g *Graph[N]) needingPrefixes(key string, visit func(target string) bool) {
	// The greatest target not greater than q either is a prefix of key, or bounds the length of the
	// next one.
	for q, ok := key, true; ok; {
		var target string
		found := false
		g.prefixes.Descend(edge{q, "\xff\xff\xff\xff"}, func(e edge) bool {
			target, found = e.target, true
			return false
		})
		if !found {
			return
		}
		n := commonPrefix(target, key)
		if n == len(target) {
			if !visit(target) {
				return
			}
			ok = n > 0
			n--
		} else if n == 0 {
			q = ""
			continue
		}
		if ok {
			q = key[:n]
		}
	}
}

func needers(edges *btree.BTreeG[edge], dst []string, target string) []string {
	edges.Ascend(edge{target: target}, func(e edge) bool {
		if e.target != target {
			return false
		}
		dst = append(dst, e.source)
		return true
	})
	return dst
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
