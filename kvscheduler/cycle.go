package kvscheduler

import (
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// cycle decides if a value may exist although its dependencies are not met by
// others, because it waits only for values that wait for it; or if a value that exists
// has its dependencies met by others only because it exists itself.
//
//  1. Collect what the root needs, directly or not: values that exist or may come to.
//  2. Add, stage by stage, what can exist: the greatest set of values of which each has
//     its dependencies met within the set or by the stages before, and its base value,
//     if it is derived, in a stage before. Members of a plain cycle get into the same
//     stage. A cycle that leads through a derived value to its base value gets
//     into none, unless something else supports it: nothing can come first.
//  3. The root is ready if its strongly connected component (Tarjan), has all
//     its dependencies met by available values and by its own members.
//     Otherwise there is something outside of it that has to come first.
//
// So what comes to exist does not depend on the order in which it was requested. All
// steps are linear in the number of values and dependencies that are visited, the
// second one for each stage, of which there is one for each derivation in a row.
type cycle struct {
	x    *exec
	root *node
	// through: the root exists. Its cycle leads through available values.
	through bool
	// existing: only available values count, not those that may come to exist.
	existing bool
	members  map[string]*member
	stack    []*member
	index    int
}

// member is a value that was visited.
type member struct {
	n     *node
	needs []need // dependencies that are not met for certain
	base  *member
	never bool // its base value does not exist, nor may come to
	// neededBy are the dependencies for which this one is an alternative.
	neededBy []*need
	stage    int  // in which it can exist, from 1 on; 0: it cannot
	tried    bool // it is in the set of which the next stage is what remains

	at, low int // Tarjan's numbers; at counts from 1
	onStack bool
	scc     int // the number of its component
}

// need is a dependency with its alternatives.
type need struct {
	owner *member
	any   []*member
	left  int
}

func newCycle(x *exec, root *node) *cycle {
	return &cycle{x: x, root: root, through: root.have != nil, members: map[string]*member{}}
}

// founded tells if a value that exists, and whose dependencies are met, would
// have them met if it did not hold up what meets them. If nobody could depend on it
// so far, the rest of its cycle is yet to come.
func (x *exec) founded(n *node) bool {
	needed := func(key string) bool { return x.g.HasNeeders(key) }
	if len(n.deps) == 0 || !needed(n.key) && !slices.ContainsFunc(n.derived, needed) {
		return true
	}
	c := newCycle(x, n)
	c.existing = !n.is(broken)
	root := c.collect()
	c.addStages(root)
	return root.stage > 0
}

func (c *cycle) ready() bool {
	root := c.collect()
	c.addStages(root)
	if root.stage == 0 {
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
	return slices.ContainsFunc(d.any, func(t *member) bool {
		return t.stage > 0 && (t.scc == scc || t.stage <= d.owner.stage && t.n.available())
	})
}

// collect visits everything that the root needs.
func (c *cycle) collect() *member {
	root, _ := c.member(c.root)
	queue := []*member{root}
	visit := func(n *node) *member {
		m, known := c.member(n)
		if !known {
			queue = append(queue, m)
		}
		return m
	}
	for ; len(queue) > 0; queue = queue[1:] {
		m := queue[0]
		if m.n.base != "" {
			base := c.x.get(m.n.base)
			switch {
			case base == nil || base != c.root && !base.available() && (c.existing || !c.possible(base)):
				m.never = true
			case c.through || !base.available():
				m.base = visit(base)
			}
		}
		if m.n.want == nil {
			continue // it was found: it does not go because of what it needs
		}
		m.needs = make([]need, 0, len(m.n.deps))
		for i := range m.n.deps {
			d := need{owner: m}
			met := false
			var found []*node
			c.x.candidates(&m.n.deps[i], func(t *node) bool {
				met = t.available() && (!c.through || c.x.grounded(t))
				found = append(found, t)
				return !met
			})
			if met {
				continue
			}
			for _, t := range found {
				if t == c.root || c.through && t.available() || !c.existing && c.possible(t) {
					d.any = append(d.any, visit(t))
				}
			}
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

// grounded tells if the value exists and needs nothing.
func (x *exec) grounded(n *node) bool {
	if n == nil || !n.available() || len(n.deps) > 0 {
		return false
	}
	return n.base == "" || x.grounded(x.get(n.base))
}

func (c *cycle) member(n *node) (_ *member, known bool) {
	m := c.members[n.key]
	if m != nil {
		return m, true
	}
	m = &member{n: n}
	c.members[n.key] = m
	return m, false
}

// possible tells if the value may come to exist in this transaction.
func (c *cycle) possible(n *node) bool {
	if n.want == nil || n.is(leaving) {
		return false
	}
	if !n.available() && c.x.about[n.baseKey()] == upcoming {
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

// addStages adds stages until the root is in one, or there are no more.
func (c *cycle) addStages(root *member) {
	for stage := 1; root.stage == 0 && c.addStage(stage); stage++ {
	}
}

// addStage finds what can exist now that the stages before do. False: nothing.
func (c *cycle) addStage(stage int) bool {
	var tried, out []*member
	for _, m := range c.members {
		if m.stage == 0 && !m.never && (m.base == nil || m.base.stage > 0) {
			m.tried = true
			tried = append(tried, m)
		}
	}
	drop := func(m *member) {
		if m.tried {
			m.tried = false
			out = append(out, m)
		}
	}
	for _, m := range tried {
		for i := range m.needs {
			d := &m.needs[i]
			d.left = 0
			for _, t := range d.any {
				if t.tried || t.stage > 0 {
					d.left++
				}
			}
		}
	}
	for _, m := range tried {
		if slices.ContainsFunc(m.needs, func(d need) bool { return d.left == 0 }) {
			drop(m)
		}
	}
	for ; len(out) > 0; out = out[1:] {
		for _, d := range out[0].neededBy {
			if d.left--; d.left == 0 {
				drop(d.owner)
			}
		}
	}
	added := false
	for _, m := range tried {
		if m.tried {
			m.tried, m.stage, added = false, stage, true
		}
	}
	return added
}

// connect finds the strongly connected components of what can exist and can be
// reached from m.
func (c *cycle) connect(m *member) {
	c.index++
	m.at, m.low, m.onStack = c.index, c.index, true
	c.stack = append(c.stack, m)
	for i := range m.needs {
		for _, t := range m.needs[i].any {
			switch {
			case t.stage == 0 || t.stage > m.stage:
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
