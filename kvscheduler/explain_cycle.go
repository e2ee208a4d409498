package kvscheduler

import (
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// waitingFor is a step on the way from a value to itself, followed backwards: the
// key is waited for by the one of the step before.
type waitingFor struct {
	key    string
	before *waitingFor
	// derived: the key is not there because the base value before it is not.
	derived bool
	// through: a step on the way is derived.
	through bool
}

// deadlock returns the shortest cycle in which the pending value waits for
// itself because of derived values, which come after their base value: the value, what
// it needs, what that is derived from or needs, ..., the value. nil: there is none.
//
// Cycles of dependencies alone are no deadlock: their members become ready together.
func (x *exec) deadlock(n *node) []*waitingFor {
	const enough = 10_000
	type place struct {
		key     string
		through bool
	}
	start := &waitingFor{key: n.key}
	seen := map[place]bool{{n.key, false}: true}
	for queue := []*waitingFor{start}; len(queue) > 0 && len(seen) < enough; queue = queue[1:] {
		at := queue[0]
		if at.through && x.waitsFor(n, at.key) {
			way := []*waitingFor{start}
			for ; at != nil; at = at.before {
				way = append(way, at)
			}
			return way
		}
		next := func(key string, derived bool) {
			through := at.through || derived
			if !seen[place{key, through}] {
				seen[place{key, through}] = true
				queue = append(queue, &waitingFor{key, at, derived, through})
			}
		}
		if t := x.get(at.key); t != nil && t.State() == pb.ValueState_PENDING && t.info != nil {
			for _, key := range t.info.derives {
				next(key, true)
			}
		}
		for _, key := range x.g.Needers(nil, at.key) {
			if t := x.get(key); t != nil && x.waitsFor(t, at.key) {
				next(key, false)
			}
		}
	}
	return nil
}

// waitsFor reports whether the value is pending and the key would satisfy one of its
// unmet dependencies.
func (x *exec) waitsFor(n *node, key string) bool {
	return n.State() == pb.ValueState_PENDING && slices.ContainsFunc(n.deps, func(d Dependency) bool { return d.matches(key) && !x.met(&d) })
}

// describeDeadlock writes the cycle as a sentence.
func describeDeadlock(way []*waitingFor) string {
	var b strings.Builder
	b.WriteString(way[0].key + " needs " + way[1].key)
	for i := 1; i+1 < len(way); i++ {
		if way[i].derived {
			b.WriteString(", which is derived from ")
		} else {
			b.WriteString(", which needs ")
		}
		b.WriteString(way[i+1].key)
	}
	return b.String()
}
