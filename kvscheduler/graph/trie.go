package graph

import (
	"slices"
	"sync/atomic"
)

// trie is a hash array mapped trie of nodes with lists as leaves. Each branch consumes four bits of the
// hash; a list is split when it is full. A hundred nodes need one level of branches, two million need
// four. Branches and lists are small, so that reads touch and changes copy little memory.
//
// Each branch belongs to the trie that created it, identified by a unique number. Its owner changes it in
// place; other tries change a copy.
type trie[N Node] struct {
	root *branch[N]
	len  int
	hash func(key string) uint64
	// owner is the number of this trie. A branch with another number is shared with a copy, and is
	// copied before a change. last is the last number given to any copy, possibly in another goroutine.
	owner uint64
	last  *atomic.Uint64
	// most is the capacity of a list. A branch shrinks to a list at a quarter of it, so that adding and
	// removing one node does not split the list each time.
	most int
}

const (
	stride = 4
	width  = 1 << stride
	// lastShift is the shift of the last level: deeper lists hold any number of nodes.
	lastShift = 60
	// listMax is the default capacity of a list.
	listMax = 48
)

// branch is a list of nodes or, if it has children, an inner node. Its allocations fill whole cache lines.
type branch[N Node] struct {
	owner    uint64
	children *[width]*branch[N]
	// tags are parts of the hashes of the nodes, so that a search reads only likely nodes.
	tags  []uint16
	nodes []N // unordered
}

func newTrie[N Node](hash func(string) uint64, most int) trie[N] {
	last := new(atomic.Uint64)
	owner := last.Add(1)
	return trie[N]{root: &branch[N]{owner: owner}, hash: hash, owner: owner, last: last, most: most}
}

func (t *trie[N]) copy() trie[N] {
	c := *t
	c.owner, t.owner = t.last.Add(1), t.last.Add(1)
	return c
}

// position returns the index of the child for the hash.
func position(hash uint64, shift uint) uint64 { return hash >> shift & (width - 1) }

// tag returns bits of the hash that only deep levels use as position.
func tag(hash uint64) uint16 { return uint16(hash >> 48) }

func (t *trie[N]) get(key string) (n N, ok bool) {
	hash := t.hash(key)
	b := t.root
	for shift := uint(0); b != nil; shift += stride {
		if b.children == nil {
			if i := b.find(hash, key); i >= 0 {
				return b.nodes[i], true
			}
			break
		}
		b = b.children[position(hash, shift)]
	}
	return n, false
}

// find returns the index of the key in the list, or -1.
func (b *branch[N]) find(hash uint64, key string) int {
	want := tag(hash)
	for i, tag := range b.tags {
		if tag == want && b.nodes[i].Key() == key {
			return i
		}
	}
	return -1
}

// set adds or replaces a node, and returns the replaced one.
func (t *trie[N]) set(n N) (old N, replaced bool) {
	t.root, old, replaced = t.put(t.root, 0, t.hash(n.Key()), n)
	if !replaced {
		t.len++
	}
	return old, replaced
}

func (t *trie[N]) put(b *branch[N], shift uint, hash uint64, n N) (_ *branch[N], old N, replaced bool) {
	if b == nil {
		b = newList[N](t.owner, 1)
	}
	if b.children == nil {
		if i := b.find(hash, n.Key()); i >= 0 {
			b = t.own(b)
			old, b.nodes[i] = b.nodes[i], n
			return b, old, true
		}
		if len(b.nodes) < t.most || shift > lastShift {
			return t.add(b, hash, n), old, false
		}
		b = t.split(b, shift)
	}
	b = t.own(b)
	child := &b.children[position(hash, shift)]
	*child, old, replaced = t.put(*child, shift+stride, hash, n)
	return b, old, replaced
}

func (t *trie[N]) add(b *branch[N], hash uint64, n N) *branch[N] {
	if b.owner != t.owner || len(b.nodes) == cap(b.nodes) {
		more := newList[N](t.owner, len(b.nodes)+1)
		b.appendTo(more)
		b = more
	}
	b.tags, b.nodes = append(b.tags, tag(hash)), append(b.nodes, n)
	return b
}

// split returns an inner node with the nodes of the list below it.
func (t *trie[N]) split(list *branch[N], shift uint) *branch[N] {
	b := newInner[N](t.owner)
	for _, n := range list.nodes {
		hash := t.hash(n.Key())
		child := &b.children[position(hash, shift)]
		if *child == nil {
			*child = newList[N](t.owner, 1)
		}
		*child = t.add(*child, hash, n)
	}
	return b
}

// delete removes the node with the key, and returns it if it existed.
func (t *trie[N]) delete(key string) (old N, ok bool) {
	if old, ok = t.get(key); !ok {
		return old, false
	}
	t.root = t.take(t.root, 0, t.hash(key), key)
	t.len--
	if t.root == nil {
		t.root = newList[N](t.owner, 0)
	}
	return old, true
}

// take removes the node with the key, which must exist. It returns nil if the branch becomes empty.
func (t *trie[N]) take(b *branch[N], shift uint, hash uint64, key string) *branch[N] {
	if len(b.nodes) == 1 {
		return nil
	}
	b = t.own(b)
	if b.children == nil {
		i := b.find(hash, key)
		b.tags, b.nodes = slices.Delete(b.tags, i, i+1), slices.Delete(b.nodes, i, i+1)
		return b
	}
	child := &b.children[position(hash, shift)]
	less := t.take(*child, shift+stride, hash, key)
	joined := less == nil || less.children == nil && (*child).children != nil
	*child = less
	if joined {
		return t.join(b)
	}
	return b
}

// join returns the branch, a list instead of it if few nodes are left, or nil if none is.
func (t *trie[N]) join(b *branch[N]) *branch[N] {
	left := 0
	for _, child := range b.children {
		if child == nil {
			continue
		}
		if left += len(child.nodes); child.children != nil || left > t.most/4+1 {
			return b
		}
	}
	if left == 0 {
		return nil
	}
	list := newList[N](t.owner, left)
	for _, child := range b.children {
		if child != nil {
			child.appendTo(list)
		}
	}
	return list
}

func (b *branch[N]) appendTo(list *branch[N]) {
	list.tags, list.nodes = append(list.tags, b.tags...), append(list.nodes, b.nodes...)
}

// own returns the branch or a copy of it that this trie may change.
func (t *trie[N]) own(b *branch[N]) *branch[N] {
	switch {
	case b.owner == t.owner:
		return b
	case b.children != nil:
		c := newInner[N](t.owner)
		*c.children = *b.children
		return c
	default:
		c := newList[N](t.owner, len(b.nodes))
		b.appendTo(c)
		return c
	}
}

// newInner returns an inner node, allocated together with its children to save a cache miss.
func newInner[N Node](owner uint64) *branch[N] {
	c := &struct {
		branch[N]
		children [width]*branch[N]
	}{}
	c.owner, c.branch.children = owner, &c.children
	return &c.branch
}

// newList returns a list for at least n nodes, allocated together with its arrays.
func newList[N Node](owner uint64, n int) *branch[N] {
	var b *branch[N]
	switch {
	case n <= 2:
		c := &struct {
			branch[N]
			t [2]uint16
			n [2]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	case n <= 4:
		c := &struct {
			branch[N]
			t [4]uint16
			n [4]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	case n <= 8:
		c := &struct {
			branch[N]
			t [8]uint16
			n [8]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	case n <= 16:
		c := &struct {
			branch[N]
			t [16]uint16
			n [16]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	case n <= 32:
		c := &struct {
			branch[N]
			t [32]uint16
			n [32]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	case n <= listMax:
		c := &struct {
			branch[N]
			t [listMax]uint16
			n [listMax]N
		}{}
		c.tags, c.nodes = c.t[:0], c.n[:0]
		b = &c.branch
	default:
		b = &branch[N]{tags: make([]uint16, 0, 2*n), nodes: make([]N, 0, 2*n)}
	}
	b.owner = owner
	return b
}
