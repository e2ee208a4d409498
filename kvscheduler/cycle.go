package kvscheduler

import (
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// cycle decides if a value whose dependencies are not met waits only for
// values that wait for it. Then somebody has to be the first.
//
//  1. Collect what the root needs, directly or not, and what may come to exist.
//  2. Take out values with a dependency that nothing left can meet, until
//     there are none. What remains can exist, all of it together.
//  3. The root is ready if its strongly connected component (Tarjan), has all
//     its dependencies met by available values and by its own members.
//     Otherwise there is something outside of it that has to come first.
//
// As a whole, what comes to exist is the greatest set of values that support
// each other, whatever the order in which they were requested. All steps are
// linear in the number of values and dependencies that are visited.
type cycle struct {
	x    *exec
	root *node
	// through: the root exists. Its cycle leads through available values.
	through bool
	members map[string]*member
	stack   []*member
	index   int
}

// member is a value that was visited.
type member struct {
	n     *node
	needs []need // dependencies that are not met by available values
	// neededBy are the members for which this one is an alternative.
	neededBy []*need
	out      bool // it cannot come to exist

	at, low int // Tarjan's numbers; at counts from 1
	onStack bool
	scc     int // the number of its component
}

// need is a dependency with its alternatives.
type need struct {
	owner *member
	any   []*member
	left  int
	met   bool // by an available value
}

func newCycle(x *exec, root *node) *cycle {
	return &cycle{x: x, root: root, through: root.have != nil, members: map[string]*member{}}
}

func (c *cycle) ready() bool {
	root := c.collect()
	c.prune()
	if root.out {
		return false
	}
	c.connect(root)
	for _, m := range c.members {
		if m.scc != root.scc {
			continue
		}
		for i := range m.needs {
			if !m.needs[i].metWithin(root.scc) {
				return false
			}
		}
	}
	return true
}

func (d *need) metWithin(scc int) bool {
	if d.met {
		return true
	}
	for _, t := range d.any {
		if t.scc == scc && !t.out {
			return true
		}
	}
	return false
}

// collect visits everything that the root needs.
func (c *cycle) collect() *member {
	root := c.member(c.root)
	for queue := []*member{root}; len(queue) > 0; queue = queue[1:] {
		m := queue[0]
		m.needs = make([]need, 0, len(m.n.deps))
		for i := range m.n.deps {
			d := need{owner: m}
			var found []*node
			c.x.candidates(&m.n.deps[i], func(t *node) bool {
				if t.available() {
					d.met = true
				}
				if c.through || !t.available() {
					found = append(found, t)
				}
				return c.through || !d.met
			})
			if d.met && !c.through {
				continue
			}
			for _, t := range found {
				if !c.possible(t) {
					continue
				}
				known := c.members[t.key] != nil
				tm := c.member(t)
				d.any = append(d.any, tm)
				if !known {
					queue = append(queue, tm)
				}
			}
			d.left = len(d.any)
			m.needs = append(m.needs, d)
		}
	}
	for _, m := range c.members {
		for i := range m.needs {
			for _, t := range m.needs[i].any {
				t.neededBy = append(t.neededBy, &m.needs[i])
			}
		}
	}
	return root
}

func (c *cycle) member(n *node) *member {
	m := c.members[n.key]
	if m == nil {
		m = &member{n: n}
		c.members[n.key] = m
	}
	return m
}

// possible tells if the value may come to exist in this transaction.
func (c *cycle) possible(n *node) bool {
	if n == c.root {
		return true
	}
	if n.want == nil || n.is(leaving) {
		return false
	}
	if n.have == nil && c.x.about[n.baseKey()] == upcoming {
		return false // it may turn out to be another value
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return n.have != nil
	case pb.ValueState_FAILED, pb.ValueState_RETRYING:
		return n.available() || n.info == nil || n.info.seq != c.x.seq
	}
	return true
}

// prune takes out what cannot come to exist.
func (c *cycle) prune() {
	var out []*member
	drop := func(m *member) {
		if !m.out {
			m.out = true
			out = append(out, m)
		}
	}
	for _, m := range c.members {
		for i := range m.needs {
			if !m.needs[i].met && m.needs[i].left == 0 {
				drop(m)
			}
		}
	}
	for ; len(out) > 0; out = out[1:] {
		for _, d := range out[0].neededBy {
			if d.left--; d.left == 0 && !d.met {
				drop(d.owner)
			}
		}
	}
}

// connect finds the strongly connected components of what remains and can be
// reached from m.
func (c *cycle) connect(m *member) {
	c.index++
	m.at, m.low, m.onStack = c.index, c.index, true
	c.stack = append(c.stack, m)
	for i := range m.needs {
		for _, t := range m.needs[i].any {
			switch {
			case t.out:
			case t.at == 0:
				c.connect(t)
				m.low = min(m.low, t.low)
			case t.onStack:
				m.low = min(m.low, t.at)
			}
		}
	}
	if m.low != m.at {
		return
	}
	for {
		last := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		last.onStack, last.scc = false, m.at
		if last == m {
			return
		}
	}
}
