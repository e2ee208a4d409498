package kvscheduler

import (
	"slices"
	"strings"

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
	needs    map[string]*need // by what is needed; nil: it is met for certain
	order    []*need
	stack    []*vertex
	index    int
}

// vertex has Tarjan's numbers.
type vertex struct {
	at, low int // at counts from 1
	onStack bool
	scc     int // the number of its component
}

// member is a value that was visited.
type member struct {
	vertex
	n     *node
	needs []*need // dependencies that are not met for certain
	base  *member
	never bool // its base value does not exist, nor may come to
	// neededBy are the dependencies for which this one is an alternative.
	neededBy []*need
	stage    int  // in which it can exist, from 1 on; 0: it cannot
	tried    bool // it is in the set of which the next stage is what remains
}

// need is a dependency with its alternatives. Members that need the same have it in
// common: of n values that need any of themselves, there is one need, and not n times n edges.
type need struct {
	owners []*member
	any    []*member
	left   int
	// stages are the vertices for owners of a stage, which count on targets up to it.
	stages map[int]*vertex
}

func newCycle(x *exec, root *node) *cycle {
	return &cycle{x: x, root: root, through: root.have != nil, members: map[string]*member{}, needs: map[string]*need{}}
}

// founded reports whether the dependencies of an existing value would be met even without the
// values that depend on it in turn. If the value was not available so far, the rest of its cycle is
// still to be created.
func (x *exec) founded(n *node) bool {
	if len(n.deps) == 0 {
		return true
	}
	needed := func(key string) bool { return x.g.HasNeeders(key) }
	if x.verdicts.isFounded(n.key) || !needed(n.key) && !slices.ContainsFunc(n.derived(), needed) {
		return true
	}
	c := newCycle(x, n)
	c.existing = !n.is(broken)
	root := c.collect()
	c.addStages(root)
	if c.existing {
		for key, m := range c.members {
			if m.stage > 0 && m.n.available() {
				x.verdicts.setFounded(key)
			}
		}
	}
	return root.stage > 0
}

// ready decides for the root, and with it for all that is decided for the same reason.
func (c *cycle) ready() bool {
	root := c.collect()
	ready := false
	for again := true; again; again = !ready && c.withoutFailed(root) {
		c.addStages(root)
		if root.stage == 0 {
			for key, m := range c.members {
				if m.stage == 0 && !m.never { // who is left out may be ready by itself
					c.x.verdicts.setReady(key, false)
				}
			}
			return false
		}
		c.connect(root)
		ready = true
		for _, m := range c.members {
			if m.scc == root.scc && ready {
				ready = !slices.ContainsFunc(m.needs, func(d *need) bool { return !d.metWithin(m, root.scc) })
			}
		}
	}
	if ready && !c.possible(c.root) {
		return ready // if the root is: no other value relies on it
	}
	for key, m := range c.members {
		if m.scc == root.scc {
			c.x.verdicts.setReady(key, ready)
		}
	}
	return ready
}

// withoutFailed starts again without the non-members that failed before this transaction, since
// values are retried only as members. It returns false if there are none.
func (c *cycle) withoutFailed(root *member) bool {
	found := false
	for _, m := range c.members {
		if m.stage > 0 && m.scc != root.scc && inTrouble(m.n) && !m.n.available() {
			m.never, found = true, true
		}
	}
	if !found {
		return false
	}
	for _, m := range c.members {
		m.stage, m.vertex = 0, vertex{}
	}
	for _, d := range c.order {
		d.stages = nil
	}
	c.index = 0
	return true
}

func (d *need) metWithin(owner *member, scc int) bool {
	return slices.ContainsFunc(d.any, func(t *member) bool {
		return t.stage > 0 && (t.scc == scc || t.stage <= owner.stage && t.n.available())
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
		if m.n.base() != "" {
			base := c.x.get(m.n.base())
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
		if c.existing && m != root && c.x.lacks(m.n) {
			continue // it goes in its turn, and then the root is looked at again
		}
		deps := m.n.current()
		for i := range deps {
			if d := c.need(&deps[i], visit); d != nil {
				d.owners = append(d.owners, m)
				m.needs = append(m.needs, d)
			}
		}
	}
	for _, d := range c.order {
		for _, t := range d.any {
			t.neededBy = append(t.neededBy, d)
		}
	}
	return root
}

// need returns the alternatives of a dependency; nil if it is met for certain.
func (c *cycle) need(dep *Dependency, visit func(*node) *member) *need {
	name, shared := dep.Key, dep.Key != ""
	if !shared && dep.AnyOf.KeySelector == nil { // predicates cannot be compared
		name, shared = "\x00"+strings.Join(dep.AnyOf.KeyPrefixes, "\x00"), true
	}
	if shared {
		if d, known := c.needs[name]; known {
			return d
		}
	}
	d := &need{}
	met := false
	var found []*node
	c.x.candidates(dep, func(t *node) bool {
		met = t.available() && (!c.through || c.x.grounded(t))
		found = append(found, t)
		return !met
	})
	if met {
		d = nil
	} else {
		for _, t := range found {
			if t == c.root || c.through && t.available() || !c.existing && c.possible(t) {
				d.any = append(d.any, visit(t))
			}
		}
		c.order = append(c.order, d)
	}
	if shared {
		c.needs[name] = d
	}
	return d
}

// grounded reports whether the value exists and needs nothing.
func (x *exec) grounded(n *node) bool {
	if n == nil || !n.available() || len(n.deps) > 0 {
		return false
	}
	return n.base() == "" || x.grounded(x.get(n.base()))
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

// possible reports whether the value may come to exist in this transaction.
func (c *cycle) possible(n *node) bool {
	if n.want == nil || n.is(leaving) {
		return false
	}
	if !n.available() && c.x.about.get(n.baseKey()) == upcoming {
		return false // it may turn out to be another value
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return n.have != nil && !n.is(unknown) // if it is gone, it does not come back
	case pb.ValueState_FAILED, pb.ValueState_RETRYING:
		return n.available() || !n.is(invalid) && (n.info() == nil || n.info().seq != c.x.seq)
	}
	return true
}

// addStages adds stages until one contains the root, or none is left.
func (c *cycle) addStages(root *member) {
	for stage := 1; root.stage == 0 && c.addStage(stage); stage++ {
	}
}

// addStage finds the members that can exist once those of the earlier stages do. False: nothing.
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
	for _, d := range c.order {
		d.left = 0
		for _, t := range d.any {
			if t.tried || t.stage > 0 {
				d.left++
			}
		}
	}
	for _, m := range tried {
		if slices.ContainsFunc(m.needs, func(d *need) bool { return d.left == 0 }) {
			drop(m)
		}
	}
	for ; len(out) > 0; out = out[1:] {
		for _, d := range out[0].neededBy {
			if d.left--; d.left == 0 {
				for _, m := range d.owners {
					drop(m)
				}
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

// connect finds the strongly connected components of the members that can exist and are reachable
// from m.
func (c *cycle) connect(m *member) {
	c.enter(&m.vertex)
	for _, d := range m.needs {
		v := d.stages[m.stage]
		if v == nil {
			v = &vertex{}
			if d.stages == nil {
				d.stages = map[int]*vertex{}
			}
			d.stages[m.stage] = v
		}
		c.reach(&m.vertex, v, func() { c.connectNeed(d, v, m.stage) })
	}
	c.leave(&m.vertex)
}

// connectNeed does so for what members of the stage need.
func (c *cycle) connectNeed(d *need, v *vertex, stage int) {
	c.enter(v)
	for _, t := range d.any {
		if t.stage > 0 && t.stage <= stage {
			c.reach(v, &t.vertex, func() { c.connect(t) })
		}
	}
	c.leave(v)
}

func (c *cycle) enter(v *vertex) {
	c.index++
	v.at, v.low, v.onStack = c.index, c.index, true
	c.stack = append(c.stack, v)
}

// reach goes from one vertex to another one, which visit visits.
func (c *cycle) reach(from, to *vertex, visit func()) {
	if to.at == 0 {
		visit()
		from.low = min(from.low, to.low)
	} else if to.onStack {
		from.low = min(from.low, to.at)
	}
}

// leave takes the component that begins with v, if one does, from the stack.
func (c *cycle) leave(v *vertex) {
	if v.low != v.at {
		return
	}
	for {
		last := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		last.onStack, last.scc = false, v.at
		if last == v {
			return
		}
	}
}
