package inspect

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Explanation is the reason for the state of a value.
type Explanation struct {
	Key string
	// Summary explains the state in one or two sentences.
	Summary string
	// Value is nil if the key is unknown.
	Value *record.Value
	// Needs are the dependencies and their candidates.
	Needs []ExplainedNeed
	// Cycle is a cycle of keys in which a PENDING value waits for itself, starting and ending with its
	// own key. Each key needs, or is derived from, the next one.
	Cycle []string
	// NeededBy are the first 32 keys of values that depend on this one.
	NeededBy []string
	// NextRetry is zero if no retry is scheduled.
	NextRetry time.Time
	// Similar are existing keys that resemble an unknown key.
	Similar []string
}

// AppendJSON appends the JSON of the explanation without empty members.
func (e *Explanation) AppendJSON(b []byte) []byte {
	b = jsontext.AppendString(append(b, `{"Key":`...), e.Key)
	b = jsontext.AppendString(append(b, `,"Summary":`...), e.Summary)
	if e.Value != nil {
		b = e.Value.AppendJSON(append(b, `,"Value":`...))
	}
	if len(e.Needs) > 0 {
		b = record.AppendList(append(b, `,"Needs":`...), e.Needs, func(b []byte, n *ExplainedNeed) []byte { return n.appendJSON(b) })
	}
	b = appendTexts(b, `,"Cycle":`, e.Cycle)
	b = appendTexts(b, `,"NeededBy":`, e.NeededBy)
	if !e.NextRetry.IsZero() {
		b = append(e.NextRetry.AppendFormat(append(b, `,"NextRetry":"`...), time.RFC3339Nano), '"')
	}
	b = appendTexts(b, `,"Similar":`, e.Similar)
	return append(b, '}')
}

func (n *ExplainedNeed) appendJSON(b []byte) []byte {
	b = jsontext.AppendString(append(b, `{"Label":`...), n.Label)
	b = jsontext.AppendString(append(b, `,"Target":`...), n.Target)
	b = strconv.AppendBool(append(b, `,"Met":`...), n.Met)
	b = appendTexts(b, `,"By":`, n.By)
	if len(n.Waiting) > 0 {
		b, _ = jsontext.AppendAny(append(b, `,"Waiting":`...), n.Waiting) // never fails for strings
	}
	b = appendTexts(b, `,"Similar":`, n.Similar)
	return append(b, '}')
}

// appendTexts appends a member with a list unless the list is empty.
func appendTexts(b []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return b
	}
	return jsontext.AppendStrings(append(b, name...), texts)
}

// ExplainedNeed is a dependency with its candidates.
type ExplainedNeed struct {
	record.Need
	Met bool
	// By are the first 8 available keys that satisfy the dependency, Waiting the first 8 other keys
	// that match it.
	By      []string
	Waiting []KeyState
	// Similar are existing keys that resemble the missing one.
	Similar []string
}

// KeyState is a key with the state of its value.
type KeyState struct {
	Key   string
	State pb.ValueState
}

// MarshalJSON encodes the state as a string.
func (k KeyState) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"Key": k.Key, "State": k.State.String()})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (k *KeyState) UnmarshalJSON(b []byte) (err error) {
	var f struct{ Key, State string }
	if err = json.Unmarshal(b, &f); err == nil {
		k.Key = f.Key
		k.State, err = record.ParseState(f.State)
	}
	return err
}

// Explain returns the reason for the state of a value: unmet dependencies, failures, and the next retry.
// It never waits for a transaction.
func Explain(s *kvscheduler.Scheduler, key string) *Explanation { return explain(s.Snapshot(), key) }

func explain(seen kvscheduler.Snapshot, key string) *Explanation {
	e := &Explanation{Key: key, Value: seen.Graphed(key)}
	if e.Value == nil {
		e.Similar = similar(seen, key)
		e.Summary = key + " is unknown: it was not requested, and not found in the southbound."
		if !seen.Described(key) {
			e.Summary += " No descriptor is registered for this key."
		}
		return e
	}
	for i := range e.Value.Needs {
		e.Needs = append(e.Needs, explainNeed(seen, e.Value, i))
	}
	e.NeededBy = seen.NeededBy(key)
	if len(e.NeededBy) > 32 {
		e.NeededBy = e.NeededBy[:32]
	}
	attempt := 0
	if e.Value.State == pb.ValueState_RETRYING {
		e.NextRetry, attempt = seen.NextRetry(key)
	}
	e.Summary = e.summarize(attempt)
	if e.Value.State == pb.ValueState_PENDING {
		if way := deadlock(seen, key); way != nil {
			for _, step := range way {
				e.Cycle = append(e.Cycle, step.key)
			}
			e.Summary += ". It waits for itself: " + describeDeadlock(way) +
				". Remove one of these dependencies, or request another value that satisfies it."
		}
	}
	return e
}

func explainNeed(seen kvscheduler.Snapshot, v *record.Value, i int) ExplainedNeed {
	const some = 8
	need := ExplainedNeed{Need: v.Needs[i]}
	seen.Candidates(v.Key, i, func(key string) bool {
		if seen.Available(key) {
			need.Met = true
			if len(need.By) < some {
				need.By = append(need.By, key)
			}
		} else if len(need.Waiting) < some {
			need.Waiting = append(need.Waiting, KeyState{key, seen.Get(key).State})
		}
		return len(need.By) < some
	})
	if !need.Met && len(need.Waiting) == 0 {
		need.Similar = similar(seen, v.Needs[i].Name())
	}
	return need
}

func (e *Explanation) summarize(attempt int) string {
	v := e.Value
	last := strings.ToLower(v.LastOperation.String())
	switch v.State {
	case pb.ValueState_CONFIGURED:
		return v.Key + " exists as requested."
	case pb.ValueState_OBTAINED:
		return v.Key + " was not requested, exists in the southbound, and is never changed."
	case pb.ValueState_DISCOVERED:
		return v.Key + " was found in the southbound. The next resync confirms or removes it."
	case pb.ValueState_MISSING:
		return v.Key + " was configured, but is missing in the southbound. A resync creates it again."
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
		return v.Key + " waits for " + strings.Join(parts, "; and for ")
	case pb.ValueState_INVALID:
		return fmt.Sprintf("%s is invalid: %s. Request a valid value.", v.Key, v.Error)
	case pb.ValueState_UNIMPLEMENTED:
		if v.Error != "" {
			return fmt.Sprintf("%s is not implemented here: %s", v.Key, v.Error)
		}
		return v.Key + " is not configured: no descriptor is registered for this key on this node."
	case pb.ValueState_FAILED:
		return fmt.Sprintf("%s: %s failed and will not be retried: %s. Request the value again, or a resync.", v.Key, last, record.FirstLine(v.Error))
	case pb.ValueState_RETRYING:
		return fmt.Sprintf("%s: %s failed: %s. Retry %d is due at %s.", v.Key, last, record.FirstLine(v.Error), attempt, e.NextRetry.Format(time.TimeOnly))
	}
	return v.Key + " is " + v.State.String()
}

// similar returns up to three existing keys that resemble the key: siblings at a small edit distance, or
// else its neighbours in the order of keys.
func similar(seen kvscheduler.Snapshot, key string) []string {
	const most, scanned = 3, 2000
	type match struct {
		key      string
		distance int
	}
	var matches []match
	parent := key[:strings.LastIndexByte(strings.TrimSuffix(key, "/"), '/')+1]
	visited := 0
	seen.Keys(parent, func(k string) bool {
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
	before, after := seen.Neighbours(key)
	for _, k := range []string{after, before} {
		if k != "" && strings.HasPrefix(k, parent) {
			keys = append(keys, k)
		}
	}
	return keys
}

// distance returns the Levenshtein distance of the first 64 bytes.
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
