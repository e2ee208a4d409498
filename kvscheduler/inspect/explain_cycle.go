package inspect

import (
	"strings"

	"github.com/contiv/contiv/kvscheduler"
)

// waitingFor is a step of the search from a value to itself, against the direction of dependencies: the
// key waits for the key of the step before.
type waitingFor struct {
	key    string
	before *waitingFor
	// derived: the key would be derived from the key of the step before.
	derived bool
	// through: a step up to this one is derived.
	through bool
}

// deadlock returns the shortest cycle in which the PENDING value waits for itself because derived values
// are created after their base value, or nil. The cycle starts and ends with the value; each element needs,
// or is derived from, the next one.
//
// Cycles of dependencies alone are no deadlock: their members become ready together.
func deadlock(seen kvscheduler.Snapshot, key string) []*waitingFor {
	const enough = 10_000
	type place struct {
		key     string
		through bool
	}
	start := &waitingFor{key: key}
	visited := map[place]bool{{key, false}: true}
	for queue := []*waitingFor{start}; len(queue) > 0 && len(visited) < enough; queue = queue[1:] {
		at := queue[0]
		if at.through && seen.WaitsFor(key, at.key) {
			way := []*waitingFor{start}
			for ; at != nil; at = at.before {
				way = append(way, at)
			}
			return way
		}
		next := func(key string, derived bool) {
			through := at.through || derived
			if !visited[place{key, through}] {
				visited[place{key, through}] = true
				queue = append(queue, &waitingFor{key, at, derived, through})
			}
		}
		for _, key := range seen.WouldDerive(at.key) {
			next(key, true)
		}
		for _, key := range seen.NeededBy(at.key) {
			if seen.WaitsFor(key, at.key) {
				next(key, false)
			}
		}
	}
	return nil
}

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
