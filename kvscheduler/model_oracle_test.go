package kvscheduler

import (
	"maps"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
)

// modelExpectation is the set of values that should exist, computed without the engine. Failed values and
// the remains of INVALID values are given. The other values are added, alone or as sets, until no more
// can exist.
type modelExpectation struct {
	exists     map[string]bool
	candidates map[string]modelCandidate
}

type modelCandidate struct {
	v       modelValue
	base    string
	invalid bool // its last valid version stays as long as its dependencies
}

// expect computes the expectation, given the states of the failed values.
func (r *modelRun) expect(nodes map[string]*node) modelExpectation {
	e := modelExpectation{map[string]bool{}, map[string]modelCandidate{}}
	fact := func(key string) {
		if n := nodes[key]; n != nil && n.available() {
			e.exists[key] = true
		}
	}
	given := map[string]bool{}
	for key, n := range nodes {
		base := modelBase(key)
		if hasFailed(n) || nodes[base] != nil && hasFailed(nodes[base]) || r.obtained[base] {
			given[key] = true
			fact(key)
		}
	}
	add := func(key, base string, v modelValue) {
		if given[key] {
			return
		}
		if v.Inv {
			n := nodes[key]
			if n == nil || n.have == nil {
				return
			}
			e.candidates[key] = modelCandidate{mustModelValue(n.have.(text).Value), base, true}
			return
		}
		e.candidates[key] = modelCandidate{v, base, false}
	}
	for key, v := range r.requested {
		add(key, "", v)
	}
	for key, c := range maps.Clone(e.candidates) {
		if c.invalid { // a restart may have lost the derived values of the last valid version
			for k, n := range nodes {
				if n.base() == key && n.want != nil {
					add(k, key, mustModelValue(n.want.(text).Value))
				}
			}
			continue
		}
		for _, p := range c.v.Parts {
			add(partKey(key, p.Name), key, p.Value)
		}
		for _, p := range c.v.Props {
			add(propertyKey(key, p), key, modelValue{})
		}
	}
	for {
		next := map[string]bool{}
		for key, c := range e.candidates {
			if !e.exists[key] && (c.base == "" || e.exists[c.base]) {
				next[key] = true
			}
		}
		for again := true; again; {
			again = false
			for key := range next {
				if !e.satisfied(e.candidates[key].v, next) {
					delete(next, key)
					again = true
				}
			}
		}
		if len(next) == 0 {
			return e
		}
		maps.Copy(e.exists, next)
	}
}

func (e modelExpectation) satisfied(v modelValue, among map[string]bool) bool {
	return !slices.ContainsFunc(v.Needs, func(need string) bool {
		for _, set := range []map[string]bool{e.exists, among} {
			for key := range set {
				if modelMeets(need, key) {
					return false
				}
			}
		}
		return true
	})
}

// nodes returns the nodes of the engine's own graph while it is idle. A View would change how the engine
// modifies the graph.
func (r *modelRun) nodes() map[string]*node { return nodesOf(r.s.graph) }

func nodesOf(g *graph.Graph[*node]) map[string]*node {
	nodes := map[string]*node{}
	g.Ascend("", func(key string, n *node) bool { nodes[key] = n; return true })
	return nodes
}

// check compares the southbound and the states with the expectation. before are the keys that existed before
// the step.
func (r *modelRun) check(when string, before map[string]bool) {
	if r.unverified {
		return
	}
	nodes := r.nodes()
	r.checkKnownValues(when, nodes)
	r.checkFailures(when, nodes)
	e := r.expect(nodes)
	for key, c := range e.candidates {
		n := nodes[key]
		sb, exists := r.sb.exists[key]
		state := pb.ValueState_NONEXISTENT
		if n != nil {
			state = n.State()
		}
		property := strings.HasPrefix(key, "pr/")
		switch {
		case !e.exists[key]:
			want := pb.ValueState_PENDING
			if c.invalid {
				want = pb.ValueState_INVALID
			}
			if exists {
				r.violated("%s: %s exists without its dependencies", when, key)
			}
			if (c.base == "" || e.exists[c.base]) && state != want {
				r.violated("%s: %s is %v, want %v", when, key, state, want)
			}
			if c.base != "" && !e.exists[c.base] && n != nil {
				r.violated("%s: %s is in the graph without its base value", when, key)
			}
		case c.invalid:
			if state != pb.ValueState_INVALID {
				r.violated("%s: %s is %v, want INVALID", when, key, state)
			}
		default:
			if state != pb.ValueState_CONFIGURED {
				r.violated("%s: %s is %v, want CONFIGURED", when, key, state)
			}
			if !property && !exists {
				r.violated("%s: %s does not exist", when, key)
			} else if !property && sb.String() != c.v.itself().String() {
				r.violated("%s: %s is %q, want %q", when, key, sb, c.v.itself())
			}
		}
	}
	for key := range r.sb.exists {
		base := modelBase(key)
		n := nodes[key]
		if _, expected := e.candidates[key]; !expected && !r.obtained[base] && (n == nil || !hasFailed(n) && (nodes[base] == nil || !hasFailed(nodes[base]))) {
			r.violated("%s: %s exists without a request", when, key)
		}
	}
	r.checkInvalid(when, nodes, before)
	if r.clean() {
		clear(r.sb.hit)
	}
}

// checkKnownValues compares the values that the scheduler assumes to exist with the southbound.
func (r *modelRun) checkKnownValues(when string, nodes map[string]*node) {
	for key, n := range nodes {
		if n.is(unknown) || nodes[n.baseKey()] != nil && nodes[n.baseKey()].is(unknown) {
			if !hasFailed(n) && (nodes[n.baseKey()] == nil || !hasFailed(nodes[n.baseKey()])) {
				r.violated("%s: %s is %v although its existence is unknown", when, key, n.State())
			}
			continue
		}
		if strings.HasPrefix(key, "pr/") {
			base, ok := r.sb.exists[modelBase(key)]
			has := ok && slices.Contains(base.Props, key[strings.LastIndex(key, "/")+1:])
			if has != (n.have != nil) && !hasFailed(nodes[n.baseKey()]) {
				r.violated("%s: property %s: scheduler assumes existence %v, is %v", when, key, n.have != nil, has)
			}
			continue
		}
		sb, exists := r.sb.exists[key]
		switch {
		case exists != (n.have != nil):
			r.violated("%s: %s: scheduler assumes existence %v, is %v", when, key, n.have != nil, exists)
		case exists && mustModelValue(n.have.(text).Value).itself().String() != sb.String():
			r.violated("%s: %s: scheduler assumes %q, is %q", when, key, n.have.(text).Value, sb)
		}
	}
}

// checkFailures checks that failed values have a cause, and that their states match their retry policy.
func (r *modelRun) checkFailures(when string, nodes map[string]*node) {
	for key, n := range nodes {
		base := n.baseKey()
		switch n.State() {
		case pb.ValueState_DISCOVERED, pb.ValueState_MISSING, pb.ValueState_REMOVED:
			if b := nodes[base]; b == nil || b == n || !hasFailed(b) {
				r.violated("%s: %s is %v", when, key, n.State())
			}
		case pb.ValueState_FAILED:
			with := nodes[base] // a derived value is retried with its base value
			if r.retry[base] && !r.retryUnclear[base] && (with == nil || with.key == key || with.State() != pb.ValueState_RETRYING) {
				r.violated("%s: %s is FAILED, want RETRYING: %v", when, key, n.err())
			}
		case pb.ValueState_RETRYING:
			if !r.retry[base] && !r.retryUnclear[base] {
				r.violated("%s: %s is RETRYING, want FAILED: %v", when, key, n.err())
			}
		}
		if !hasFailed(n) {
			delete(r.explainedKeys, key)
		} else if r.explainedKeys[key] = r.explainedKeys[key] || r.explained(key, nodes); !r.explainedKeys[key] {
			r.violated("%s: %s is %v without a failure: %v", when, key, n.State(), n.err())
		}
	}
}

// explained reports whether a failed call explains the failure of the key: a call for the key, or for a value
// that depends on it.
func (r *modelRun) explained(key string, nodes map[string]*node) bool {
	seen := map[string]bool{key: true}
	for queue := []string{key}; len(queue) > 0; queue = queue[1:] {
		if r.sb.hit[queue[0]] {
			return true
		}
		add := func(k string) {
			if !seen[k] {
				seen[k] = true
				queue = append(queue, k)
			}
		}
		for k := range r.sb.hit {
			if modelBase(k) == modelBase(queue[0]) {
				add(k)
			}
		}
		for k, n := range nodes {
			if n.base() == queue[0] {
				add(k)
			}
			for _, m := range []any{n.want, n.have} {
				if v, ok := m.(text); ok && v != nil {
					for _, need := range mustModelValue(v.Value).Needs {
						if modelMeets(need, queue[0]) {
							add(k)
						}
					}
				}
			}
			for _, d := range n.deps {
				if d.Key == queue[0] || d.Key == "" && strings.HasPrefix(queue[0], d.AnyOf.KeyPrefixes[0]) {
					add(k)
				}
			}
		}
	}
	return false
}

// checkInvalid checks that the last valid versions of INVALID values are unchanged, unless one of their
// dependencies was touched.
func (r *modelRun) checkInvalid(when string, nodes map[string]*node, before map[string]bool) {
	touched := map[string]bool{}
	after := r.sb.keys()
	for _, call := range r.sb.calls {
		f := strings.Fields(call)
		touched[f[1]], touched[modelBase(f[1])] = true, true
	}
	r.collectBegunDeletions()
	for key := range r.begunDeletions {
		touched[key] = true
	}
	for _, keys := range []map[string]bool{before, after} {
		for key := range keys {
			if before[key] != after[key] || touched[modelBase(key)] && modelBase(key) != key {
				touched[key] = true
			}
		}
	}
	for key, was := range r.lastValid {
		v, ok := r.requested[key]
		if !ok || !v.Inv || touched[key] && r.sb.hitPartOf(key) {
			continue
		}
		is, exists := r.sb.exists[key]
		if exists && is.String() != was {
			r.violated("%s: %s, which is INVALID, is %q, was %q", when, key, is, was)
		}
		lost := slices.ContainsFunc(mustModelValue(was).Needs, func(need string) bool {
			for k := range touched {
				if modelMeets(need, k) {
					return true
				}
			}
			for k := range before {
				if modelMeets(need, k) {
					return false
				}
			}
			return true
		})
		if !exists && !lost {
			r.violated("%s: %s, which is INVALID, was lost", when, key)
		}
	}
}

// collectBegunDeletions collects the keys of deletions. A dependent that is INVALID is deleted before its
// dependency and does not come back, even if the deletion of the dependency is blocked.
func (r *modelRun) collectBegunDeletions() {
	records := r.s.History(noTime, noTime)
	for _, rec := range records[min(r.records, len(records)):] {
		for _, op := range rec.Executed {
			if op.Operation == pb.TxnOperation_DELETE {
				r.begunDeletions[op.Key] = true
			}
		}
	}
	r.records = len(records)
}

// beforeOperation checks the graph before an operation, while the engine waits for the southbound.
func (r *modelRun) beforeOperation(call, key string) {
	if strings.HasPrefix(key, "o/") || r.obtained[modelBase(key)] && !r.known[modelBase(key)] {
		r.violated("P4: %s of the obtained value %s", call, key)
	}
	g := r.s.exec.g
	if g == nil {
		return
	}
	nodes := nodesOf(g)
	if len(r.sb.calls)%3 == 0 { // otherwise, no view is created
		r.checkView(call+" "+key, nodes)
	}
	if r.unverified {
		return
	}
	_, exists := r.sb.exists[key]
	n := nodes[key]
	uncertain := n == nil || n.is(unknown) || r.sb.hit[key]
	if exists && call == "create" && !uncertain {
		r.violated("%s is created, but exists", key)
	}
	if !exists && call != "create" && !uncertain {
		r.violated("%s of the missing value %s", call, key)
	}
	if call == "delete" {
		r.checkDelete(key, nodes)
	}
	r.checkP5(call+" "+key, nodes)
}

// checkView checks that readers see the graph before the transaction that created the nodes.
func (r *modelRun) checkView(at string, nodes map[string]*node) {
	want := maps.Clone(nodes)
	for _, c := range slices.Backward(r.s.exec.changes) {
		if c.old == nil {
			delete(want, c.new.key)
		} else {
			want[c.new.key] = c.old
		}
	}
	view := r.s.view()
	if got := nodesOf(view); !maps.Equal(got, want) || view.Len() != len(want) {
		r.violated("at %s, readers see %v, want %v", at, got, want)
	}
	for key := range nodes {
		var needers []string
		for source, n := range want {
			if slices.ContainsFunc(n.deps, func(d Dependency) bool { return modelTarget(&d, key) }) {
				needers = append(needers, source)
			}
		}
		slices.Sort(needers)
		if got := view.Needers(nil, key); !slices.Equal(got, needers) {
			r.violated("at %s, readers see the dependents %v of %s, want %v", at, got, key, needers)
		}
	}
}

// modelReach adds to seen the keys that a value depends on, directly or indirectly.
func modelReach(nodes map[string]*node, from string, seen map[string]bool) map[string]bool {
	n := nodes[from]
	if n == nil {
		return seen
	}
	visit := func(key string) {
		if !seen[key] {
			seen[key] = true
			modelReach(nodes, key, seen)
		}
	}
	if n.base() != "" {
		visit(n.base())
	}
	for i := range n.deps {
		for key, t := range nodes {
			if modelTarget(&n.deps[i], key) && (t.want != nil || t.have != nil) {
				visit(key)
			}
		}
	}
	return seen
}

func modelTarget(d *Dependency, key string) bool {
	return d.Key == key || d.Key == "" && strings.HasPrefix(key, d.AnyOf.KeyPrefixes[0])
}

func modelSameCycle(nodes map[string]*node, a, b string) bool {
	return a == b || modelReach(nodes, a, map[string]bool{})[b] && modelReach(nodes, b, map[string]bool{})[a]
}

// mayReach adds to seen the keys that a value depends on, directly or indirectly, in its existing version or
// in any version that the scheduler may assume after a failure.
func (r *modelRun) mayReach(nodes map[string]*node, from string, seen map[string]bool) map[string]bool {
	all := r.sb.keys()
	for key, n := range nodes {
		if n.have != nil {
			all[key] = true
		}
	}
	var deps []Dependency
	if n := nodes[from]; n != nil {
		deps = n.deps
	}
	for key := range all {
		if !seen[key] && (modelBase(from) == key ||
			slices.ContainsFunc(r.sb.exists[from].Needs, func(need string) bool { return modelMeets(need, key) }) ||
			slices.ContainsFunc(deps, func(d Dependency) bool { return modelTarget(&d, key) })) {
			seen[key] = true
			r.mayReach(nodes, key, seen)
		}
	}
	return seen
}

// checkDelete checks that no existing value outside of its cycle depends on the deleted value.
func (r *modelRun) checkDelete(key string, nodes map[string]*node) {
	going := map[string]bool{key: true}
	for _, p := range r.sb.exists[key].Props {
		going[propertyKey(key, p)] = true
	}
	there := r.sb.keys()
	for k, n := range nodes { // as far as the scheduler knows
		if n.have != nil && n.is(unknown) {
			there[k] = true
		}
	}
	for k, v := range r.sb.exists {
		n := nodes[k]
		if k == key || n == nil || n.have == nil || n.is(unknown|fromSB) || r.obtained[modelBase(k)] {
			continue
		}
		if modelBase(k) == key {
			r.violated("%s is deleted before its derived value %s", key, k)
		}
		for _, need := range v.Needs {
			held, kept := false, false
			for t := range there {
				if modelMeets(need, t) {
					held = held || going[t]
					kept = kept || !going[t]
				}
			}
			// Another member of the cycle may be about to take its place, as when a cycle starts.
			for t, n := range nodes {
				if !kept && !going[t] && modelMeets(need, t) && n.want != nil && modelSameCycle(nodes, k, t) {
					kept = true
				}
			}
			if held && !kept && !modelSameCycle(nodes, k, key) && !r.mayReach(nodes, key, map[string]bool{})[k] {
				r.violated("%s is deleted before its dependent %s", key, k)
			}
		}
	}
}

// checkP5 checks that the dependencies of CONFIGURED values are met.
func (r *modelRun) checkP5(at string, nodes map[string]*node) {
	for key, n := range nodes {
		if n.State() != pb.ValueState_CONFIGURED || n.want == nil || n.is(deleting) {
			continue
		}
		for i := range n.deps {
			met := false
			for target, t := range nodes {
				// A value that is being deleted still exists.
				if modelTarget(&n.deps[i], target) && (t.have != nil && !t.is(broken)) {
					met = true
				}
			}
			for target, t := range nodes {
				if !met && modelTarget(&n.deps[i], target) && t.want != nil && modelSameCycle(nodes, key, target) {
					met = true
				}
			}
			if !met {
				r.violated("P5: before %s: %s is CONFIGURED, but its dependency %s is not met", at, key, n.deps[i].Label)
			}
		}
	}
}
