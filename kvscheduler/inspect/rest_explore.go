package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/contiv/contiv/kvscheduler/record"
)

func (s server) serveTimeline(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "key", "time")
	if err != nil {
		return err
	}
	key := q.Get("key")
	if key == "" {
		return badRequest("argument %q is missing", "key")
	}
	at, err := timeArg(q, "time")
	if err != nil {
		return err
	}
	revisions := []record.Revision{}
	for _, rev := range s.Timeline(key) {
		if at.IsZero() || !rev.Since.After(at) && (rev.Until.IsZero() || rev.Until.After(at)) {
			revisions = append(revisions, rev)
		}
	}
	return writeJSON(w, revisions)
}

func (s server) serveSnapshot(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "time", "outline", "key*")
	if err != nil {
		return err
	}
	outline, err := boolArg(q, "outline")
	if err != nil {
		return err
	}
	at, err := timeArg(q, "time")
	if err != nil {
		return err
	}
	seen := s.Snapshot()
	if !at.IsZero() {
		if seen, err = s.SnapshotAt(at); err != nil {
			return recorded(err)
		}
	}
	var values []*record.Value
	if keys := q["key"]; len(keys) > 0 {
		values = Neighbourhood(seen.Graphed, keys)
	} else {
		values = seen.Values()
	}
	if outline { // the snapshot returned copies
		for _, v := range values {
			v.Want, v.Have, v.Metadata = nil, nil, nil
		}
	}
	return writeJSON(w, record.Values(values))
}

// Neighbourhood returns the values with the keys in next, and their derived values, base values and
// dependencies, transitively and sorted by key. get returns the value with a key, or nil.
func Neighbourhood(get func(key string) *record.Value, next []string) []*record.Value {
	chosen := make(map[string]*record.Value)
	for next = slices.Clone(next); len(next) > 0; {
		key := next[len(next)-1]
		next = next[:len(next)-1]
		if chosen[key] != nil {
			continue
		}
		v := get(key)
		if v == nil {
			continue
		}
		chosen[key] = v
		next = append(next, v.Derived...)
		if v.Base != "" {
			next = append(next, v.Base)
		}
		for _, need := range slices.Concat(v.Needs, v.Matching) {
			next = append(next, need.Target)
		}
	}
	out := []*record.Value{}
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		out = append(out, chosen[key])
	}
	return out
}

func (s server) serveKeys(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	keys := []string{}
	s.Snapshot().Keys("", func(key string) bool {
		keys = append(keys, key)
		return true
	})
	return writeJSON(w, keys)
}

func (s server) serveDiff(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "from", "to")
	if err != nil {
		return err
	}
	from, err := timeArg(q, "from")
	if err != nil {
		return err
	}
	to, err := timeArg(q, "to")
	if err != nil {
		return err
	}
	if from.IsZero() {
		return badRequest("argument %q is missing", "from")
	}
	diffs, err := Diff(s.Scheduler, from, to)
	if err != nil {
		return recorded(err)
	}
	return writeJSON(w, record.Diffs(diffs))
}

func recorded(err error) error {
	if errors.Is(err, kvscheduler.ErrNotRecorded) {
		return &httpError{http.StatusNotFound, err}
	}
	return err
}

func (s server) serveExplain(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "key")
	if err != nil {
		return err
	}
	if !q.Has("key") {
		seen := s.Snapshot()
		keys := func(yield func(string) bool) { seen.Keys("", yield) }
		return writeList(w, keys, func(b []byte, key string) []byte { return explain(seen, key).AppendJSON(b) })
	}
	if q.Get("key") == "" {
		return badRequest("argument %q is empty", "key")
	}
	return writeJSON(w, Explain(s.Scheduler, q.Get("key")))
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Diff returns the values that differ between two moments, sorted by key. A zero to means now.
func Diff(s *kvscheduler.Scheduler, from, to time.Time) ([]record.Diff, error) {
	if to.IsZero() {
		to = time.Now()
	}
	a, err := s.SnapshotAt(from)
	if err != nil {
		return nil, err
	}
	b, err := s.SnapshotAt(to)
	if err != nil {
		return nil, err
	}
	return a.Diff(b), nil
}

// PlanRequest is the body of POST /scheduler/plan: a change, or the whole intent with FullResync.
type PlanRequest struct {
	// Values to put, or to delete if they have no value.
	Values []record.KeyValue
	// ResyncType is the name of a record.ResyncType. Default: NotResync.
	ResyncType string `json:",omitempty"`
}

// PlanReply is the response to a PlanRequest.
type PlanReply struct {
	Planned []record.Op
	// Error names the invalid values.
	Error string `json:",omitempty"`
}

func (s server) servePlan(w http.ResponseWriter, r *http.Request) error {
	const most = 64 << 20
	if _, err := query(r); err != nil {
		return err
	}
	var req PlanRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return badRequest("body: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return badRequest("body: more than one JSON value")
	}
	resync := kvscheduler.NotResync
	if req.ResyncType != "" {
		var err error
		if resync, err = record.ParseResync(req.ResyncType); err != nil {
			return badRequest("body: %v", err)
		}
	}
	t := s.NewTransaction()
	for _, kv := range req.Values {
		if raw, ok := kv.Value.(*record.RawValue); ok {
			return badRequest("body: value of %s: the message type %q is unknown", kv.Key, raw.Name)
		}
		t.Put(kv.Key, kv.Value)
	}
	ops, err := t.Plan(r.Context(), kvscheduler.WithResync(resync))
	var te *kvscheduler.TransactionError
	if err != nil && !errors.As(err, &te) {
		return badRequest("%w", err)
	}
	if ops == nil {
		ops = []record.Op{}
	}
	return writeJSON(w, PlanReply{ops, textOf(err)})
}

func (s server) serveGraph(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "txn", "format", "key-prefix")
	if err != nil {
		return err
	}
	seen, seq := s.Snapshot(), kvscheduler.NoSeqNum
	if text := q.Get("txn"); text != "" {
		if seq, err = strconv.ParseUint(text, 10, 64); err != nil {
			return badRequest("argument %q: %q is not a sequence number", "txn", text)
		}
		t := s.RecordedTxn(seq)
		if t == nil {
			return notFound("transaction #%d is not in the history", seq)
		}
		if seen, err = s.SnapshotAt(t.Stop); err != nil {
			return recorded(err)
		}
	}
	values := seen.Values()
	if prefix := q.Get("key-prefix"); prefix != "" {
		kept := values[:0]
		for _, v := range values {
			if strings.HasPrefix(v.Key, prefix) || strings.HasPrefix(v.Base, prefix) {
				kept = append(kept, v)
			}
		}
		values = kept
	}
	var dot bytes.Buffer
	if err := diagram.WriteDOT(&dot, values, seq); err != nil {
		return err
	}
	switch format := q.Get("format"); format {
	case "dot", "raw", "":
		w.Header().Set("Content-Type", "text/vnd.graphviz; charset=utf-8")
		_, _ = w.Write(dot.Bytes())
		return nil
	case "svg":
		w.Header().Set("Content-Type", "image/svg+xml")
		return diagram.WriteSVG(w, values, seq)
	default:
		return badRequest("argument %q: %q is neither dot nor svg", "format", format)
	}
}

// FlagStats counts the current values.
type FlagStats struct {
	TotalCount    int
	PerValueCount map[string]int
}

func (s server) serveFlagStats(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "flag", "prefix*")
	if err != nil {
		return err
	}
	seen := s.Snapshot()
	of := map[string]func(v *record.Value) (string, bool){
		"value-state": func(v *record.Value) (string, bool) { return v.State.String(), true },
		"descriptor":  func(v *record.Value) (string, bool) { return v.Descriptor, v.Descriptor != "" },
		"derived":     func(v *record.Value) (string, bool) { return v.Base, v.Base != "" },
		"error":       func(v *record.Value) (string, bool) { return record.FirstLine(v.Error), v.Error != "" },
		"unavailable": func(v *record.Value) (string, bool) { return "", !seen.Available(v.Key) },
		"last-update": func(v *record.Value) (string, bool) { return "TXN-" + strconv.FormatUint(v.Txn, 10), true },
	}[q.Get("flag")]
	if of == nil {
		return badRequest("argument %q: unknown flag %q: use value-state, descriptor, derived, error, unavailable or last-update", "flag", q.Get("flag"))
	}
	prefixes := q["prefix"]
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	stats := FlagStats{PerValueCount: map[string]int{}}
	for _, prefix := range prefixes {
		seen.Ascend(prefix, func(v *record.Value) bool {
			if text, ok := of(v); ok {
				stats.TotalCount++
				stats.PerValueCount[text]++
			}
			return true
		})
	}
	return writeJSON(w, stats)
}
