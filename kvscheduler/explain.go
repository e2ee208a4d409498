package kvscheduler

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
)

// Explanation says why a value is in its state.
type Explanation struct {
	Key string
	// Summary is a sentence or two for people.
	Summary string
	// Value is nil if the key is unknown.
	Value *ValueSnapshot
	// Needs are the dependencies with what satisfies them.
	Needs []ExplainedNeed
	// Cycle are the keys of a cycle in which the value waits for itself, from its own to
	// its own, each of which needs or is derived from the next: nothing can come first.
	Cycle []string
	// NeededBy are the keys of values that depend on this one, the first 32.
	NeededBy []string
	// NextRetry is zero if none is scheduled.
	NextRetry time.Time
	// Similar are existing keys that resemble an unknown key.
	Similar []string
}

// ExplainedNeed is a dependency with what satisfies it, or what might.
type ExplainedNeed struct {
	Need
	Met bool
	// By are available keys that satisfy it, Waiting other ones that match it, with
	// their states; the first 8 each.
	By      []string
	Waiting []KeyState
	// Similar are existing keys that resemble the one that is missing.
	Similar []string
}

// KeyState is a key with the state of its value.
type KeyState struct {
	Key   string
	State pb.ValueState
}

// MarshalJSON writes the state as a string.
func (k KeyState) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"Key": k.Key, "State": k.State.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (k *KeyState) UnmarshalJSON(b []byte) (err error) {
	var f struct{ Key, State string }
	if err = json.Unmarshal(b, &f); err == nil {
		k.Key = f.Key
		k.State, err = parseState(f.State)
	}
	return err
}

// Explain says why a value is in its state: what it waits for, what failed,
// when that is repeated. Never waits for a transaction.
func (s *Scheduler) Explain(key string) *Explanation {
	g := s.view()
	e := &Explanation{Key: key}
	n, ok := g.Get(key)
	if !ok {
		e.Similar = similar(g, key)
		e.Summary = key + " is not known: nobody requested it, and it was not found in the southbound."
		if s.registry.Load().find(key) == nil {
			e.Summary += " No descriptor is registered for such keys."
		}
		return e
	}
	e.Value = n.snapshot()
	x := &exec{g: g, sets: &sets{}}
	for i := range n.deps {
		e.Needs = append(e.Needs, x.explainNeed(n, i))
	}
	e.NeededBy = g.Needers(nil, key)
	if len(e.NeededBy) > 32 {
		e.NeededBy = e.NeededBy[:32]
	}
	if n.info != nil && n.State() == pb.ValueState_RETRYING {
		e.NextRetry = n.info.retryAt
	}
	e.Summary = e.summarize(n)
	if n.State() == pb.ValueState_PENDING {
		if way := x.deadlock(n); way != nil {
			for _, step := range way {
				e.Cycle = append(e.Cycle, step.key)
			}
			e.Summary += ". It waits for itself, and nothing can come first: " + describeDeadlock(way) +
				". Take one of these dependencies away, or add what else can satisfy it."
		}
	}
	return e
}

func (x *exec) explainNeed(n *node, i int) ExplainedNeed {
	const some = 8
	d := &n.deps[i]
	need := ExplainedNeed{Need: Need{n.depLabel(i), d.target()}}
	x.candidates(d, func(t *node) bool {
		if t.available() {
			need.Met = true
			if len(need.By) < some {
				need.By = append(need.By, t.key)
			}
		} else if len(need.Waiting) < some {
			need.Waiting = append(need.Waiting, KeyState{t.key, t.State()})
		}
		return len(need.By) < some
	})
	if !need.Met && len(need.Waiting) == 0 {
		name := d.Key
		if name == "" {
			name = d.AnyOf.prefixes()[0]
		}
		need.Similar = similar(x.g, name)
	}
	return need
}

func (e *Explanation) summarize(n *node) string {
	last := strings.ToLower(pb.TxnOperation(n.lastOp).String())
	switch n.State() {
	case pb.ValueState_CONFIGURED:
		return n.key + " exists as requested."
	case pb.ValueState_OBTAINED:
		return n.key + " exists without us; it is never changed."
	case pb.ValueState_DISCOVERED:
		return n.key + " was found in the southbound; the next resync confirms or removes it."
	case pb.ValueState_MISSING:
		return n.key + " was configured, but was not found in the southbound; a resync creates it again."
	case pb.ValueState_PENDING:
		var parts []string
		for _, need := range e.Needs {
			if need.Met {
				continue
			}
			part := fmt.Sprintf("%s (%s)", need.Target, need.Label)
			switch {
			case len(need.Waiting) > 0:
				part += fmt.Sprintf(", which is %v", need.Waiting[0].State)
				if need.Waiting[0].Key != need.Target {
					part += ": " + need.Waiting[0].Key
				}
			case len(need.Similar) > 0:
				part += ", which does not exist; did you mean " + strings.Join(need.Similar, " or ") + "?"
			default:
				part += ", which does not exist"
			}
			parts = append(parts, part)
		}
		return n.key + " waits for " + strings.Join(parts, "; and for ")
	case pb.ValueState_INVALID:
		return fmt.Sprintf("%s can never be configured like this: %v. Request a correct value.", n.key, n.err())
	case pb.ValueState_UNIMPLEMENTED:
		if n.err() != nil {
			return fmt.Sprintf("%s is not implemented here: %v", n.key, n.err())
		}
		return n.key + " has no descriptor: it is configured as soon as one is registered for such keys."
	case pb.ValueState_FAILED:
		return fmt.Sprintf("%s: %s failed and is not repeated: %s. Request the value again, or a resync.", n.key, last, firstLine(n.err().Error()))
	case pb.ValueState_RETRYING:
		return fmt.Sprintf("%s: %s failed: %s. Attempt %d follows at %s.", n.key, last, firstLine(n.err().Error()), n.info.attempt, e.NextRetry.Format(time.TimeOnly))
	}
	return n.key + " is " + n.State().String()
}

// similar returns up to three existing keys that resemble the key: siblings
// with few different characters, or else the neighbours in the order of keys.
func similar(g *graph.Graph[*node], key string) []string {
	const most, scanned = 3, 2000
	type match struct {
		key      string
		distance int
	}
	var matches []match
	parent := key[:strings.LastIndexByte(strings.TrimSuffix(key, "/"), '/')+1]
	visited := 0
	g.Ascend(parent, func(k string, _ *node) bool {
		if d := distance(strings.TrimPrefix(key, parent), strings.TrimPrefix(k, parent)); d <= 1+(len(key)-len(parent))/3 {
			matches = append(matches, match{k, d})
		}
		visited++
		return visited < scanned
	})
	sort.SliceStable(matches, func(i, j int) bool { return matches[i].distance < matches[j].distance })
	var keys []string
	for i := 0; i < len(matches) && i < most; i++ {
		keys = append(keys, matches[i].key)
	}
	if len(keys) > 0 || parent == "" {
		return keys
	}
	if k, _, ok := g.Seek(key); ok && strings.HasPrefix(k, parent) {
		keys = append(keys, k)
	}
	if k, _, ok := g.SeekBack(key); ok && strings.HasPrefix(k, parent) {
		keys = append(keys, k)
	}
	return keys
}

// distance is the Levenshtein distance, of the first 64 bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
