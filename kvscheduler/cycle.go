package kvscheduler

import (
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// cycle decides two questions about cycles of dependencies: may a value be created although some of
// its dependencies are unmet, because they wait only for the value itself; and would the
// dependencies of an existing value be met without the values that depend on it?
//
//  1. collect visits all values that the root needs, directly or indirectly, and that exist or may
//     be created.
//  2. addStages computes the values that can exist, stage by stage. A stage is the greatest set of
//     values whose dependencies are met by the set itself and by earlier stages, and whose base
//     values are in earlier stages. Members of a plain cycle share a stage. A cycle through a
//     derived value and its base value gets no stage unless another value supports it.
//  3. The root is ready if its strongly connected component (Tarjan) has all dependencies met by
//     available values and by its own members. Otherwise, a value outside of the component has to
//     be created first.
//
// The result does not depend on the order of the requests. Each step is linear in the visited
// values and dependencies. Step 2 repeats once per level of nested derivation.
type cycle struct {
	v    *view
	root *node
	// viaExisting: the root exists, so its cycle leads through available values.
	viaExisting bool
	// onlyExisting: values that could be created do not count.
	onlyExisting bool
	members      map[string]*member
	needs        map[string]*need // by target; nil if certainly met
	order        []*need
	stack        []*vertex
	lastIndex    int
}

// vertex holds the state of Tarjan's algorithm.
type vertex struct {
	index, low int // index starts at 1
	onStack    bool
	scc        int // index of its component
}

type member struct {
	vertex
	n        *node
	needs    []*need // dependencies that are not certainly met
	base     *member
	excluded bool // its base value does not exist and cannot be created
	// neededBy are the dependencies that list this member as an alternative.
	neededBy  []*need
	stage     int  // starts at 1; 0: the member cannot exist
	candidate bool // it is in the set that the current stage is computed from
}

// need is a dependency with its alternatives. Members with the same dependency share one need:
// n values that need any of each other have one need, not n×n edges.
type need struct {
	owners         []*member
	alternatives   []*member
	candidatesLeft int
	// stages holds one vertex per stage of the owners: it counts only alternatives up to that stage.
	stages map[int]*vertex
}

func newCycle(v *view, root *node) *cycle {
	return &cycle{v: v, root: root, viaExisting: root.have != nil, members: map[string]*member{}, needs: map[string]*need{}}
}

// isSupported reports whether the dependencies of an existing value would be met without the values
// that depend on it. If the value is unavailable, the missing part of its cycle counts as created.
func (v *view) isSupported(n *node) bool {
	if len(n.deps) == 0 {
		return true
	}
	needed := func(key string) bool { return v.g.HasNeeders(key) }
	if v.cycleCache.isSupported(n.key) || !needed(n.key) && !slices.ContainsFunc(n.derived(), needed) {
		return true
	}
	c := newCycle(v, n)
	c.onlyExisting = !n.is(broken)
	root := c.collect()
	c.addStages(root)
	if c.onlyExisting {
		for key, m := range c.members {
			if m.stage > 0 && m.n.available() {
				v.cycleCache.setSupported(key)
			}
		}
	}
	return root.stage > 0
}

// ready reports whether the root may be created, and caches the result for all values that share it.
func (c *cycle) ready() bool {
	root := c.collect()
	ready := false
	for again := true; again; again = !ready && c.excludeFailed(root) {
		c.addStages(root)
		if root.stage == 0 {
			for key, m := range c.members {
				if m.stage == 0 && !m.excluded { // excluded members may still be ready themselves
					c.v.cycleCache.store(key, false)
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
	if ready && !c.mayExist(c.root) {
		return ready // holds for the root only, since nothing may rely on it
	}
	for key, m := range c.members {
		if m.scc == root.scc {
			c.v.cycleCache.store(key, ready)
		}
	}
	return ready
}

// excludeFailed excludes the values outside of the root's component that failed before this
// transaction, because only members of the component are retried. It reports whether it excluded any.
func (c *cycle) excludeFailed(root *member) bool {
	found := false
	for _, m := range c.members {
		if m.stage > 0 && m.scc != root.scc && hasFailed(m.n) && !m.n.available() {
			m.excluded, found = true, true
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
	c.lastIndex = 0
	return true
}

func (d *need) metWithin(owner *member, scc int) bool {
	return slices.ContainsFunc(d.alternatives, func(t *member) bool {
		return t.stage > 0 && (t.scc == scc || t.stage <= owner.stage && t.n.available())
	})
}

// collect visits the values that the root needs, directly or indirectly.
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
			base := c.v.get(m.n.base())
			switch {
			case base == nil || base != c.root && !base.available() && (c.onlyExisting || !c.mayExist(base)):
				m.excluded = true
			case c.viaExisting || !base.available():
				m.base = visit(base)
			}
		}
		if m.n.want == nil {
			continue // obtained or discovered: it does not depend on anything
		}
		if c.onlyExisting && m != root && c.v.hasUnmet(m.n) {
			continue // it will be deleted, and the root checked again
		}
		deps := m.n.wantedDeps()
		for i := range deps {
			if d := c.need(&deps[i], visit); d != nil {
				d.owners = append(d.owners, m)
				m.needs = append(m.needs, d)
			}
		}
	}
	for _, d := range c.order {
		for _, t := range d.alternatives {
			t.neededBy = append(t.neededBy, d)
		}
	}
	return root
}

// need returns the alternatives of a dependency, or nil if the dependency is certainly met.
func (c *cycle) need(dep *Dependency, visit func(*node) *member) *need {
	name, shared := dep.Key, dep.Key != ""
	if !shared && dep.AnyOf.KeySelector == nil { // selectors cannot be compared
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
	c.v.candidates(dep, func(t *node) bool {
		met = t.available() && (!c.viaExisting || c.v.isUnconditional(t))
		found = append(found, t)
		return !met
	})
	if met {
		d = nil
	} else {
		for _, t := range found {
			if t == c.root || c.viaExisting && t.available() || !c.onlyExisting && c.mayExist(t) {
				d.alternatives = append(d.alternatives, visit(t))
			}
		}
		c.order = append(c.order, d)
	}
	if shared {
		c.needs[name] = d
	}
	return d
}

// isUnconditional reports whether the value is available and neither it nor its base value has dependencies.
func (v *view) isUnconditional(n *node) bool {
	if n == nil || !n.available() || len(n.deps) > 0 {
		return false
	}
	return n.base() == "" || v.isUnconditional(v.get(n.base()))
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

// mayExist reports whether the value exists or may be created in this transaction.
func (c *cycle) mayExist(n *node) bool {
	if n.want == nil || n.is(deleting) {
		return false
	}
	if !n.available() && c.v.scope.get(n.baseKey()) == upcoming {
		return false // its request may still change
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return n.have != nil && !n.is(unknown) // once deleted, it is not created again
	case pb.ValueState_FAILED, pb.ValueState_RETRYING:
		return n.available() || !n.is(invalid) && (n.info() == nil || n.info().seq != c.v.seq)
	}
	return true
}

// addStages adds stages until the root is in one or no more value can be added.
func (c *cycle) addStages(root *member) {
	for stage := 1; root.stage == 0 && c.addStage(stage); stage++ {
	}
}

// addStage computes the members that can exist after the earlier stages. It reports whether it
// added any.
func (c *cycle) addStage(stage int) bool {
	var tried, out []*member
	for _, m := range c.members {
		if m.stage == 0 && !m.excluded && (m.base == nil || m.base.stage > 0) {
			m.candidate = true
			tried = append(tried, m)
		}
	}
	drop := func(m *member) {
		if m.candidate {
			m.candidate = false
			out = append(out, m)
		}
	}
	for _, d := range c.order {
		d.candidatesLeft = 0
		for _, t := range d.alternatives {
			if t.candidate || t.stage > 0 {
				d.candidatesLeft++
			}
		}
	}
	for _, m := range tried {
		if slices.ContainsFunc(m.needs, func(d *need) bool { return d.candidatesLeft == 0 }) {
			drop(m)
		}
	}
	for ; len(out) > 0; out = out[1:] {
		for _, d := range out[0].neededBy {
			if d.candidatesLeft--; d.candidatesLeft == 0 {
				for _, m := range d.owners {
					drop(m)
				}
			}
		}
	}
	added := false
	for _, m := range tried {
		if m.candidate {
			m.candidate, m.stage, added = false, stage, true
		}
	}
	return added
}

// connect finds the strongly connected components of the members that can exist and are reachable
// from m.
func (c *cycle) connect(m *member) {
	c.push(&m.vertex)
	for _, d := range m.needs {
		v := d.stages[m.stage]
		if v == nil {
			v = &vertex{}
			if d.stages == nil {
				d.stages = map[int]*vertex{}
			}
			d.stages[m.stage] = v
		}
		c.visitEdge(&m.vertex, v, func() { c.connectNeed(d, v, m.stage) })
	}
	c.popComponent(&m.vertex)
}

// connectNeed continues connect through a dependency of members of the stage.
func (c *cycle) connectNeed(d *need, v *vertex, stage int) {
	c.push(v)
	for _, t := range d.alternatives {
		if t.stage > 0 && t.stage <= stage {
			c.visitEdge(v, &t.vertex, func() { c.connect(t) })
		}
	}
	c.popComponent(v)
}

func (c *cycle) push(v *vertex) {
	c.lastIndex++
	v.index, v.low, v.onStack = c.lastIndex, c.lastIndex, true
	c.stack = append(c.stack, v)
}

// visitEdge follows the edge between two vertices. visit visits the second one.
func (c *cycle) visitEdge(from, to *vertex, visit func()) {
	if to.index == 0 {
		visit()
		from.low = min(from.low, to.low)
	} else if to.onStack {
		from.low = min(from.low, to.index)
	}
}

// popComponent removes the component that starts at v, if any, from the stack.
func (c *cycle) popComponent(v *vertex) {
	if v.low != v.index {
		return
	}
	for {
		last := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		last.onStack, last.scc = false, v.index
		if last == v {
			return
		}
	}
}

// cycleCache caches the results of cycle analyses. One analysis decides for all values that it visits
// for the same reason:
//
//   - A positive result (ready, supported) holds until a value is deleted, fails, or gets other
//     dependencies.
//   - A negative result (notReady) also ends when a value becomes available.
type cycleCache struct {
	supported, ready, notReady map[string]struct{}
}

func (v *cycleCache) reset() {
	clear(v.supported)
	clear(v.ready)
	clear(v.notReady)
}

// invalidateNotReady drops the results that may change when a value becomes available or may be created.
func (v *cycleCache) invalidateNotReady() {
	if len(v.notReady) > 0 {
		clear(v.notReady)
	}
}

// invalidate drops the results that may change when a value is lost or will not be created.
func (v *cycleCache) invalidate() {
	if len(v.supported)+len(v.ready)+len(v.notReady) > 0 {
		v.reset()
	}
}

func (v *cycleCache) isSupported(key string) bool {
	_, ok := v.supported[key]
	return ok
}

func (v *cycleCache) setSupported(key string) {
	if v.supported == nil {
		v.supported = map[string]struct{}{}
	}
	v.supported[key] = struct{}{}
}

// lookup returns the cached result for a PENDING value.
func (v *cycleCache) lookup(key string) (ready, known bool) {
	if _, ready = v.ready[key]; ready {
		return true, true
	}
	_, known = v.notReady[key]
	return false, known
}

func (v *cycleCache) store(key string, ready bool) {
	if v.ready == nil {
		v.ready, v.notReady = map[string]struct{}{}, map[string]struct{}{}
	}
	if ready {
		v.ready[key] = struct{}{}
	} else {
		v.notReady[key] = struct{}{}
	}
}
