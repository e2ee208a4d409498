package kvscheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func (s *Scheduler) serveTimeline(w http.ResponseWriter, r *http.Request) error {
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
	revisions := []Revision{}
	for _, rev := range s.Timeline(key) {
		if at.IsZero() || !rev.Since.After(at) && (rev.Until.IsZero() || rev.Until.After(at)) {
			revisions = append(revisions, rev)
		}
	}
	return writeJSON(w, revisions)
}

func (s *Scheduler) serveSnapshot(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "time")
	if err != nil {
		return err
	}
	at, err := timeArg(q, "time")
	if err != nil {
		return err
	}
	if at.IsZero() {
		return writeJSON(w, s.Graph())
	}
	values, err := s.GraphAt(at)
	if err != nil {
		return recorded(err)
	}
	return writeJSON(w, values)
}

func (s *Scheduler) serveDiff(w http.ResponseWriter, r *http.Request) error {
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
	diffs, err := s.Diff(from, to)
	if err != nil {
		return recorded(err)
	}
	if diffs == nil {
		diffs = []ValueDiff{}
	}
	return writeJSON(w, diffs)
}

func recorded(err error) error {
	if errors.Is(err, ErrNotRecorded) {
		return &httpError{http.StatusNotFound, err}
	}
	return err
}

func (s *Scheduler) serveExplain(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "key")
	if err != nil {
		return err
	}
	if q.Get("key") == "" {
		return badRequest("argument %q is missing", "key")
	}
	return writeJSON(w, s.Explain(q.Get("key")))
}

// PlanRequest is the body of POST /scheduler/plan: a change, or with FullResync
// the whole intent.
type PlanRequest struct {
	// Values to put; without a value, to delete.
	Values []KeyValue
	// ResyncType as in records; empty: NotResync.
	ResyncType string `json:",omitempty"`
}

// PlanReply is what a change would lead to.
type PlanReply struct {
	Planned []RecordedOp
	// Error tells which values are invalid.
	Error string `json:",omitempty"`
}

func (s *Scheduler) servePlan(w http.ResponseWriter, r *http.Request) error {
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
	resync := NotResync
	if req.ResyncType != "" {
		var err error
		if resync, err = parseName(resyncNames, req.ResyncType, "resync type"); err != nil {
			return badRequest("body: %v", err)
		}
	}
	t := s.NewTransaction()
	for _, kv := range req.Values {
		if raw, ok := kv.Value.(*RawValue); ok {
			return badRequest("body: value of %s: the message type %q is unknown", kv.Key, raw.Name)
		}
		t.Put(kv.Key, kv.Value)
	}
	ops, err := t.Plan(r.Context(), WithResync(resync))
	var te *TransactionError
	if err != nil && !errors.As(err, &te) {
		return badRequest("%w", err)
	}
	if ops == nil {
		ops = []RecordedOp{}
	}
	return writeJSON(w, PlanReply{ops, message(err)})
}

func (s *Scheduler) serveGraph(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "txn", "format", "key-prefix")
	if err != nil {
		return err
	}
	values, seq := s.Graph(), NoSeqNum
	if text := q.Get("txn"); text != "" {
		if seq, err = strconv.ParseUint(text, 10, 64); err != nil {
			return badRequest("argument %q: %q is not a sequence number", "txn", text)
		}
		t := s.RecordedTxn(seq)
		if t == nil {
			return notFound("transaction #%d is not in the history", seq)
		}
		if values, err = s.GraphAt(t.Stop); err != nil {
			return recorded(err)
		}
	}
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
	if err := WriteDOT(&dot, values, seq); err != nil {
		return err
	}
	switch format := q.Get("format"); format {
	case "dot", "raw", "":
		w.Header().Set("Content-Type", "text/vnd.graphviz; charset=utf-8")
		_, _ = w.Write(dot.Bytes())
		return nil
	case "svg":
		w.Header().Set("Content-Type", "image/svg+xml")
		return WriteSVG(w, values, seq)
	default:
		return badRequest("argument %q: %q is neither dot nor svg", "format", format)
	}
}

// FlagStats count the present values.
type FlagStats struct {
	TotalCount    int
	PerValueCount map[string]int
}

func (s *Scheduler) serveFlagStats(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "flag", "prefix*")
	if err != nil {
		return err
	}
	of := map[string]func(n *node) (string, bool){
		"value-state": func(n *node) (string, bool) { return n.State().String(), true },
		"descriptor": func(n *node) (string, bool) {
			if n.desc == nil {
				return "", false
			}
			return n.desc.name, true
		},
		"derived":     func(n *node) (string, bool) { return n.base, n.base != "" },
		"error":       func(n *node) (string, bool) { return firstLine(message(n.err())), n.err() != nil },
		"unavailable": func(n *node) (string, bool) { return "", !n.available() },
		"last-update": func(n *node) (string, bool) { return "TXN-" + strconv.FormatUint(n.txn, 10), true },
	}[q.Get("flag")]
	if of == nil {
		return badRequest("argument %q: %q is none of value-state, descriptor, derived, error, unavailable, last-update", "flag", q.Get("flag"))
	}
	prefixes := q["prefix"]
	if len(prefixes) == 0 {
		prefixes = everyKey
	}
	stats := FlagStats{PerValueCount: map[string]int{}}
	g := s.view()
	for _, prefix := range prefixes {
		g.Ascend(prefix, func(_ string, n *node) bool {
			if v, ok := of(n); ok {
				stats.TotalCount++
				stats.PerValueCount[v]++
			}
			return true
		})
	}
	return writeJSON(w, stats)
}

// Stats are the counters of a scheduler since its start.
type Stats struct {
	Values      int
	ValueStates map[string]int
	Queued      int
	Recorded    int
	// HistoryBytes is the estimated size of the history.
	HistoryBytes int
	Since        time.Time
	LastSeqNum   uint64
}

// Stats returns numbers about the present state.
func (s *Scheduler) Stats() Stats {
	st := Stats{ValueStates: map[string]int{}, Queued: s.queue.length(), Since: s.history.start}
	s.view().Ascend("", func(_ string, n *node) bool {
		st.Values++
		st.ValueStates[pb.ValueState(n.state).String()]++
		return true
	})
	h := s.history
	h.mu.RLock()
	defer h.mu.RUnlock()
	st.Recorded, st.HistoryBytes = len(h.records), h.bytes
	if len(h.records) > 0 {
		st.LastSeqNum = h.records[len(h.records)-1].txn.SeqNum
	}
	return st
}
