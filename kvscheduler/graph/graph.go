package graph

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// Graph holds nodes of type N and the edges between their keys. An edge may
// exist without a node at either end.
type Graph[N any] struct {
	nodes    *btree.Map[string, N]
	exact    *btree.BTreeG[edge]
	prefixes *btree.BTreeG[edge]
}

// edge says that the value with the key source needs the target, which is a
// key or a key prefix.
type edge struct{ target, source string }

func (a edge) less(b edge) bool {
	if a.target != b.target {
		return a.target < b.target
	}
	return a.source < b.source
}

// New returns an empty graph.
func New[N any]() *Graph[N] {
	// Small B-tree nodes: a change after a Copy copies those on its path.
	const degree = 8
	opts := btree.Options{NoLocks: true, Degree: 2 * degree}
	return &Graph[N]{
		nodes:    btree.NewMap[string, N](degree),
		exact:    btree.NewBTreeGOptions(edge.less, opts),
		prefixes: btree.NewBTreeGOptions(edge.less, opts),
	}
}

// Copy returns a graph with the same content. Changes of one are not seen by
// the other. O(1).
func (g *Graph[N]) Copy() *Graph[N] {
	return &Graph[N]{nodes: g.nodes.Copy(), exact: g.exact.Copy(), prefixes: g.prefixes.Copy()}
}

// Len is the number of nodes.
func (g *Graph[N]) Len() int { return g.nodes.Len() }

// Get returns the node with the key.
func (g *Graph[N]) Get(key string) (N, bool) { return g.nodes.Get(key) }

// Set adds or replaces the node with the key.
func (g *Graph[N]) Set(key string, n N) { g.nodes.Set(key, n) }

// Delete removes the node with the key, if there is one. Edges stay.
func (g *Graph[N]) Delete(key string) { g.nodes.Delete(key) }

// Ascend calls visit for the nodes whose keys have the prefix, in the order of
// their keys, until visit returns false. visit must not change the graph.
func (g *Graph[N]) Ascend(prefix string, visit func(key string, n N) bool) {
	if prefix == "" {
		g.nodes.Scan(visit)
		return
	}
	g.nodes.Ascend(prefix, func(key string, n N) bool {
		return strings.HasPrefix(key, prefix) && visit(key, n)
	})
}

// Seek returns the first node whose key is equal to or greater than the key.
func (g *Graph[N]) Seek(key string) (found string, n N, ok bool) {
	g.nodes.Ascend(key, func(k string, v N) bool {
		found, n, ok = k, v, true
		return false
	})
	return found, n, ok
}

// SeekBack returns the last node whose key is less than the key.
func (g *Graph[N]) SeekBack(key string) (found string, n N, ok bool) {
	g.nodes.Descend(key, func(k string, v N) bool {
		if k == key {
			return true
		}
		found, n, ok = k, v, true
		return false
	})
	return found, n, ok
}

// Need records that source needs the key target. Repeating it changes nothing.
func (g *Graph[N]) Need(target, source string) { g.exact.Set(edge{target, source}) }

// Unneed takes Need back.
func (g *Graph[N]) Unneed(target, source string) { g.exact.Delete(edge{target, source}) }

// NeedPrefix records that source needs a key with the prefix.
func (g *Graph[N]) NeedPrefix(prefix, source string) { g.prefixes.Set(edge{prefix, source}) }

// UnneedPrefix takes NeedPrefix back.
func (g *Graph[N]) UnneedPrefix(prefix, source string) { g.prefixes.Delete(edge{prefix, source}) }

// Needers appends to dst the keys of those who need the key, directly or by a
// prefix, sorted and without duplicates, and returns the result. Its cost is
// proportional to the result.
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
	// Every prefix of key that somebody needs, from the longest to the shortest:
	// the greatest target that is not greater than q is either a prefix of key, or
	// tells how long such a prefix can be at most.
	for q, ok := key, true; ok; {
		var target string
		found := false
		g.prefixes.Descend(edge{q, "\xff\xff\xff\xff"}, func(e edge) bool {
			target, found = e.target, true
			return false
		})
		if !found {
			break
		}
		n := commonPrefix(target, key)
		if n == len(target) {
			dst = needers(g.prefixes, dst, target)
			runs++
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
	if runs > 1 {
		slices.Sort(dst[start:])
		return dst[:start+len(slices.Compact(dst[start:]))]
	}
	return dst
}

// HasNeeders tells if anybody needs the key, directly or by a prefix.
func (g *Graph[N]) HasNeeders(key string) bool {
	has := false
	g.exact.Ascend(edge{target: key}, func(e edge) bool {
		has = e.target == key
		return false
	})
	return has || g.prefixes.Len() > 0 && len(g.Needers(nil, key)) > 0
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
