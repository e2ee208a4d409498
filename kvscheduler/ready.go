package kvscheduler

import (
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// unmet returns the labels of the dependencies of n that are not met; none if n
// may exist.
//
// A dependency is met when a matching value is available. The members of a
// cycle of dependencies wait for each other only: they become ready together,
// once everything that they need outside the cycle is available.
func (x *exec) unmet(n *node) []string {
	var labels []string
	for i := range n.deps {
		if !x.met(&n.deps[i]) {
			labels = append(labels, n.depLabel(i))
		}
	}
	if len(labels) > 0 && x.g.HasNeeders(n.key) {
		if c := (cycles{x: x, root: n}); c.ready() {
			return nil
		}
	}
	return labels
}

// depLabel is the label of a dependency, made unique by its key if need be.
func (n *node) depLabel(i int) string {
	d := &n.deps[i]
	for j := range n.deps {
		if j != i && n.deps[j].Label == d.Label {
			return d.Label + " (" + d.target() + ")"
		}
	}
	return d.Label
}

// target describes what the dependency needs.
func (d *Dependency) target() string {
	if d.Key != "" {
		return d.Key
	}
	text := "any of"
	for _, p := range d.AnyOf.prefixes() {
		text += " " + p + "*"
	}
	return text
}

// met tells if an available value satisfies the dependency.
func (x *exec) met(d *Dependency) bool {
	met := false
	x.candidates(d, func(n *node) bool {
		met = n.available()
		return !met
	})
	return met
}

// candidates visits the values that match the dependency, until visit returns
// false.
func (x *exec) candidates(d *Dependency, visit func(n *node) bool) {
	if d.Key != "" {
		if n, ok := x.g.Get(d.Key); ok {
			visit(n)
		}
		return
	}
	more := true
	for _, p := range d.AnyOf.prefixes() {
		x.g.Ascend(p, func(key string, n *node) bool {
			if d.AnyOf.selects(key) {
				more = visit(n)
			}
			return more
		})
		if !more {
			return
		}
	}
}

// selects asks the KeySelector; one that panics selects nothing.
func (a *AnyOf) selects(key string) bool {
	if a.KeySelector == nil {
		return true
	}
	var err error
	selected := false
	func() {
		defer caught(&err, key, "KeySelector")
		selected = a.KeySelector(key)
	}()
	return selected
}

// cycles finds the strongly connected component of root among values that
// exist or may come to exist, by Tarjan's algorithm, and tells if all of its
// members' dependencies are met by available values or by each other.
type cycles struct {
	x       *exec
	root    *node
	through bool // root exists: its cycle leads through available values
	index   map[string]*visited
	stack   []*visited
}

type visited struct {
	n       *node
	at, low int
	onStack bool
	blocked bool // has a dependency that nothing can satisfy
	scc     []*visited
}

func (c *cycles) ready() bool {
	c.through = c.root.have != nil
	c.index = map[string]*visited{}
	v := c.visit(c.root)
	members := map[string]bool{}
	for _, m := range v.scc {
		if m.blocked {
			return false
		}
		members[m.n.key] = true
	}
	for _, m := range v.scc {
		for i := range m.n.deps {
			met := false
			c.x.candidates(&m.n.deps[i], func(t *node) bool {
				met = t.available() || members[t.key] && c.possible(t)
				return !met
			})
			if !met {
				return false
			}
		}
	}
	return true
}

// possible tells if the value may come to exist in this transaction.
func (c *cycles) possible(n *node) bool {
	if n == c.root {
		return true
	}
	if n.want == nil || n.is(leaving) {
		return false
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return n.have != nil
	case pb.ValueState_FAILED, pb.ValueState_RETRYING:
		return n.info == nil || n.info.seq != c.x.seq
	}
	return true
}

func (c *cycles) visit(n *node) *visited {
	v := &visited{n: n, at: len(c.index), low: len(c.index), onStack: true}
	c.index[n.key] = v
	c.stack = append(c.stack, v)
	var next []*node
	for i := range n.deps {
		some := false
		from := len(next)
		c.x.candidates(&n.deps[i], func(t *node) bool {
			if t.available() && !c.through {
				some, next = true, next[:from] // met from outside the cycle
				return false
			}
			if c.possible(t) {
				some, next = true, append(next, t)
			}
			return true
		})
		if !some {
			v.blocked, next = true, nil
			break
		}
	}
	for _, t := range next {
		w := c.index[t.key]
		if w == nil {
			w = c.visit(t)
			v.low = min(v.low, w.low)
		} else if w.onStack {
			v.low = min(v.low, w.at)
		}
	}
	if v.low == v.at {
		for {
			last := c.stack[len(c.stack)-1]
			c.stack = c.stack[:len(c.stack)-1]
			last.onStack = false
			v.scc = append(v.scc, last)
			if last == v {
				break
			}
		}
	}
	return v
}
