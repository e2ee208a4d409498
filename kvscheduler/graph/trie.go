package graph

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// trie holds nodes by the hashes of their keys, as a hash array mapped trie: each branch decides by
// four more bits of the hash. A hundred nodes are two branches deep, a hundred thousand five, and
// the branches are small, so that look-ups read little and changes copy little.
//
// A branch belongs to the trie that made it, by a number that no other trie
// has. Its owner changes it in place; others change a copy.
type trie[N Node] struct {
	root *branch[N]
	len  int
	hash func(key string) uint64
	// owner is the number of this trie, last the last one given to any of its copies,
	// which may be with other goroutines.
	owner uint64
	last  *atomic.Uint64
}

const (
	stride = 4
	// beyond this shift nothing of a hash is left: the nodes of such a branch are a
	// list of all with the same hash.
	lastShift = 60
)

// branch holds nodes and further branches, both in the order of the bits of the hash
// that lead to them. It has at least two nodes beneath it, unless it is the root.
type branch[N Node] struct {
	owner    uint64
	hasNode  uint16 // by the bits of the hash
	hasChild uint16
	nodes    []N
	children []*branch[N]
}

func newTrie[N Node](hash func(string) uint64) trie[N] {
	last := new(atomic.Uint64)
	owner := last.Add(1)
	return trie[N]{root: &branch[N]{owner: owner}, hash: hash, owner: owner, last: last}
}

// copy returns a trie with the same nodes.
func (t *trie[N]) copy() trie[N] {
	c := *t
	c.owner, t.owner = t.last.Add(1), t.last.Add(1)
	return c
}

// position is the bit that the hash has at this depth, and where below it are in an array that only
// has entries for set bits.
func position(hash uint64, shift uint) uint16 { return 1 << (hash >> shift & (1<<stride - 1)) }
func index(set, bit uint16) int               { return bits.OnesCount16(set & (bit - 1)) }

func (t *trie[N]) get(key string) (n N, ok bool) {
	hash := t.hash(key)
	b := t.root
	for shift := uint(0); shift <= lastShift; shift += stride {
		bit := position(hash, shift)
		if b.hasNode&bit != 0 {
			found := b.nodes[index(b.hasNode, bit)]
			if found.Key() == key {
				return found, true
			}
			return n, false
		}
		if b.hasChild&bit == 0 {
			return n, false
		}
		b = b.children[index(b.hasChild, bit)]
	}
	if i := b.listed(key); i >= 0 {
		return b.nodes[i], true
	}
	return n, false
}

// listed returns where the key is in a branch that is a list; -1: it is not.
func (b *branch[N]) listed(key string) int {
	return slices.IndexFunc(b.nodes, func(n N) bool { return n.Key() == key })
}

// set adds or replaces a node. It reports whether it was added.
func (t *trie[N]) set(n N) (added bool) {
	t.root, added = t.put(t.root, 0, t.hash(n.Key()), n)
	if added {
		t.len++
	}
	return added
}

func (t *trie[N]) put(b *branch[N], shift uint, hash uint64, n N) (_ *branch[N], added bool) {
	b = t.own(b)
	if shift > lastShift {
		if i := b.listed(n.Key()); i >= 0 {
			b.nodes[i] = n
			return b, false
		}
		b.nodes = append(b.nodes, n)
		return b, true
	}
	bit := position(hash, shift)
	i, j := index(b.hasNode, bit), index(b.hasChild, bit)
	switch {
	case b.hasChild&bit != 0:
		b.children[j], added = t.put(b.children[j], shift+stride, hash, n)
		return b, added
	case b.hasNode&bit == 0:
		b.hasNode |= bit
		b.nodes = slices.Insert(b.nodes, i, n)
		return b, true
	case b.nodes[i].Key() == n.Key():
		b.nodes[i] = n
		return b, false
	}
	other := b.nodes[i]
	child := roomFor(&branch[N]{})
	child.owner = t.owner
	child, _ = t.put(child, shift+stride, t.hash(other.Key()), other)
	child, _ = t.put(child, shift+stride, hash, n)
	b.hasNode &^= bit
	b.hasChild |= bit
	b.nodes = slices.Delete(b.nodes, i, i+1)
	b.children = slices.Insert(b.children, j, child)
	return b, true
}

// delete removes the node with the key. It reports whether there was one.
func (t *trie[N]) delete(key string) bool {
	if _, ok := t.get(key); !ok {
		return false
	}
	t.root = t.take(t.root, 0, t.hash(key), key)
	t.len--
	return true
}

// take removes the node with the key, which must exist.
func (t *trie[N]) take(b *branch[N], shift uint, hash uint64, key string) *branch[N] {
	b = t.own(b)
	if shift > lastShift {
		i := b.listed(key)
		b.nodes = slices.Delete(b.nodes, i, i+1)
		return b
	}
	bit := position(hash, shift)
	i, j := index(b.hasNode, bit), index(b.hasChild, bit)
	if b.hasNode&bit != 0 {
		b.hasNode &^= bit
		b.nodes = slices.Delete(b.nodes, i, i+1)
		return b
	}
	child := t.take(b.children[j], shift+stride, hash, key)
	b.children[j] = child
	if len(child.children) == 0 && len(child.nodes) == 1 {
		b.hasChild &^= bit
		b.hasNode |= bit
		b.children = slices.Delete(b.children, j, j+1)
		b.nodes = slices.Insert(b.nodes, i, child.nodes[0])
	}
	return b
}

// own returns the branch, or a copy of it, that this trie may change.
func (t *trie[N]) own(b *branch[N]) *branch[N] {
	if b.owner == t.owner {
		return b
	}
	c := roomFor(b)
	c.owner, c.hasNode, c.hasChild = t.owner, b.hasNode, b.hasChild
	c.nodes = append(c.nodes, b.nodes...)
	c.children = append(c.children, b.children...)
	return c
}

// roomFor returns a branch for the content of b, in one piece of memory: in a large
// graph every other piece is one more that is far away.
func roomFor[N Node](b *branch[N]) *branch[N] {
	switch nodes, children := len(b.nodes), len(b.children); {
	case nodes <= 4 && children == 0:
		c := &struct {
			branch[N]
			n [4]N
		}{}
		c.nodes = c.n[:0]
		return &c.branch
	case children == 0:
		c := &struct {
			branch[N]
			n [1 << stride]N
		}{}
		c.nodes = c.n[:0]
		return &c.branch
	case nodes == 0:
		c := &struct {
			branch[N]
			c [1 << stride]*branch[N]
		}{}
		c.children = c.c[:0]
		return &c.branch
	case nodes <= 8 && children <= 8:
		c := &struct {
			branch[N]
			n [8]N
			c [8]*branch[N]
		}{}
		c.nodes, c.children = c.n[:0], c.c[:0]
		return &c.branch
	default:
		c := &struct {
			branch[N]
			n [1 << stride]N
			c [1 << stride]*branch[N]
		}{}
		c.nodes, c.children = c.n[:0], c.c[:0]
		return &c.branch
	}
}
