// Package inspect presents the state and history of a KVScheduler: the REST API below /scheduler/,
// explanations, and differences between two moments. It reads records and snapshots, and waits for a
// transaction only for dumps, plans and resyncs.
//
//	kvscheduler ── records, snapshots ──> inspect ──> REST
//	                                          └─────> package diagram
package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/contiv/contiv/kvscheduler/record"
)

// KeysURL is the path of the list of all keys.
const KeysURL = "/scheduler/keys"

// server serves the REST API of a scheduler.
type server struct{ *kvscheduler.Scheduler }

// Handler serves the REST API below /scheduler/:
//
//	GET  /scheduler/txn-history       format=json|text|diagram seq-num= since= until= first= last=
//	GET  /scheduler/dump              descriptor= key-prefix= view=SB|NB|cached
//	GET  /scheduler/status            key=, or about= descriptor= key-prefix= state=; about= (repeatable): keys of base or derived values
//	GET  /scheduler/keys              keys of all base and derived values
//	GET  /scheduler/explain           key=; default: all values
//	GET  /scheduler/key-timeline      key= time=
//	GET  /scheduler/graph-snapshot    time= outline=true key= (repeatable): only these values and their dependencies
//	GET  /scheduler/diff              from= to=
//	GET  /scheduler/graph             format=dot|svg txn= key-prefix=
//	GET  /scheduler/flag-stats        flag= prefix=
//	GET  /scheduler/stats
//	POST /scheduler/plan              body: PlanRequest; response: PlanReply
//	POST /scheduler/downstream-resync retry=true
//
// Times are Unix nanoseconds or RFC 3339. The body of an error response is {"Error": "text"}.
func Handler(of *kvscheduler.Scheduler) http.Handler {
	s := server{of}
	mux := http.NewServeMux()
	serve := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				writeError(w, err)
			}
		})
	}
	serve("GET /scheduler/txn-history", s.serveHistory)
	serve("GET /scheduler/dump", s.serveDump)
	serve("GET /scheduler/status", s.serveStatus)
	serve("GET "+KeysURL, s.serveKeys)
	serve("GET /scheduler/explain", s.serveExplain)
	serve("GET /scheduler/key-timeline", s.serveTimeline)
	serve("GET /scheduler/graph-snapshot", s.serveSnapshot)
	serve("GET /scheduler/diff", s.serveDiff)
	serve("GET /scheduler/graph", s.serveGraph)
	serve("GET /scheduler/flag-stats", s.serveFlagStats)
	serve("GET /scheduler/stats", func(w http.ResponseWriter, r *http.Request) error { return writeJSON(w, s.Stats()) })
	serve("POST /scheduler/plan", s.servePlan)
	serve("POST /scheduler/downstream-resync", s.serveResync)
	return mux
}

// httpError is an error with its HTTP status.
type httpError struct {
	status int
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &httpError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if he, ok := err.(*httpError); ok {
		status = he.status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct{ Error string }{err.Error()})
}

// long is the size from which a response is not indented, because only programs read it.
const long = 64 << 10

func writeJSON(w http.ResponseWriter, v any) error {
	var data []byte
	if list, ok := v.(interface{ AppendJSON(b []byte) []byte }); ok {
		data = list.AppendJSON(nil)
	} else {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return err
		}
	}
	return writeText(w, data)
}

func writeText(w http.ResponseWriter, data []byte) error {
	if len(data) < long {
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, "", "  "); err != nil {
			return err
		}
		data = indented.Bytes()
	}
	data = append(data, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
	return nil
}

// writeList responds with a list. one appends an element. A long list is sent in parts.
func writeList[T any](w http.ResponseWriter, list iter.Seq[T], one func(b []byte, element T) []byte) error {
	w.Header().Set("Content-Type", "application/json")
	b := make([]byte, 0, 2*long)
	separator, sent := byte('['), false
	for element := range list {
		b = one(append(b, separator), element)
		separator = ','
		if len(b) < long {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return nil // the client disconnected
		}
		b, sent = b[:0], true
	}
	if separator == '[' {
		b = append(b, '[')
	}
	b = append(b, ']')
	if !sent {
		return writeText(w, b)
	}
	_, _ = w.Write(append(b, '\n'))
	return nil
}

// query returns the arguments of the request. Unknown arguments, and repeated ones without an asterisk in
// known, are errors.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("arguments: %v", err)
	}
	for name, values := range q {
		name, repeatable := name, slices.Contains(known, name+"*")
		if !repeatable && !slices.Contains(known, name) {
			return nil, badRequest("unknown argument %q: use one of %s", name, strings.ReplaceAll(strings.Join(known, ", "), "*", ""))
		}
		for _, v := range values {
			if !utf8.ValidString(v) {
				return nil, badRequest("argument %q is not valid UTF-8", name)
			}
		}
		if !repeatable && len(values) > 1 {
			return nil, badRequest("argument %q is given %d times", name, len(values))
		}
	}
	return q, nil
}

func timeArg(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(0, ns), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, badRequest("argument %q: %q is neither Unix time in nanoseconds nor RFC 3339", name, text)
	}
	return t, nil
}

func countArg(q url.Values, name string) (n int, err error) {
	if text := q.Get(name); text != "" {
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return 0, badRequest("argument %q: %q is not a positive number", name, text)
		}
	}
	return n, nil
}

func boolArg(q url.Values, name string) (bool, error) {
	text := q.Get(name)
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("argument %q: %q is neither true nor false", name, text)
	}
	return b, nil
}

func (s server) serveHistory(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "format", "seq-num", "since", "until", "first", "last")
	if err != nil {
		return err
	}
	format := q.Get("format")
	render := map[string]func(*record.Txn, io.Writer) error{
		"text":    (*record.Txn).WriteText,
		"diagram": func(t *record.Txn, w io.Writer) error { return diagram.SequenceOf(t).WriteMermaid(w) },
	}[format]
	if format != "" && format != "json" && render == nil {
		return badRequest("argument %q: unknown format %q: use json, text or diagram", "format", format)
	}
	if text := q.Get("seq-num"); text != "" {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return badRequest("argument %q: %q is not a sequence number", "seq-num", text)
		}
		t := s.RecordedTxn(seq)
		if t == nil {
			return notFound("transaction #%d is not in the history", seq)
		}
		if render != nil {
			return writeTexts(w, []*record.Txn{t}, render)
		}
		return writeJSON(w, t)
	}
	since, err := timeArg(q, "since")
	if err != nil {
		return err
	}
	until, err := timeArg(q, "until")
	if err != nil {
		return err
	}
	first, err := countArg(q, "first")
	if err != nil {
		return err
	}
	last, err := countArg(q, "last")
	if err != nil {
		return err
	}
	txns := s.History(since, until)
	if first > 0 && first < len(txns) {
		txns = txns[:first]
	}
	if last > 0 && last < len(txns) {
		txns = txns[len(txns)-last:]
	}
	if render != nil {
		return writeTexts(w, txns, render)
	}
	return writeJSON(w, record.Txns(txns))
}

func writeTexts(w http.ResponseWriter, txns []*record.Txn, render func(*record.Txn, io.Writer) error) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for i, t := range txns {
		if i > 0 {
			_, _ = io.WriteString(w, "\n")
		}
		if err := render(t, w); err != nil {
			return nil // the client disconnected
		}
	}
	return nil
}

// DumpIndex lists the possible arguments of a dump.
type DumpIndex struct {
	Descriptors []string
	KeyPrefixes []string
	Views       []string
}

var views = map[string]kvscheduler.View{"SB": kvscheduler.SBView, "NB": kvscheduler.NBView, "cached": kvscheduler.CachedView}

func (s server) serveDump(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "descriptor", "key-prefix", "view")
	if err != nil {
		return err
	}
	if len(q) == 0 {
		return writeJSON(w, s.dumpIndex())
	}
	view := kvscheduler.SBView
	if text := q.Get("view"); text != "" {
		known := false
		if view, known = views[text]; !known {
			return badRequest("argument %q: unknown view %q: use SB, NB or cached", "view", text)
		}
	}
	f := kvscheduler.DumpFilter{Descriptor: q.Get("descriptor"), KeyPrefix: q.Get("key-prefix")}
	if f.Descriptor != "" && s.descriptor(f.Descriptor) == nil {
		return notFound("unknown descriptor %q", f.Descriptor)
	}
	values, err := s.Dump(r.Context(), view, f)
	if err != nil {
		return err
	}
	return writeJSON(w, record.Dump(values))
}

func (s server) dumpIndex() DumpIndex {
	ix := DumpIndex{Views: []string{"SB", "NB", "cached"}}
	for _, d := range s.Snapshot().Descriptors() {
		ix.Descriptors = append(ix.Descriptors, d.Name)
		if d.NB {
			ix.KeyPrefixes = append(ix.KeyPrefixes, d.KeyPrefix)
		}
	}
	slices.Sort(ix.KeyPrefixes)
	return ix
}

func (s server) descriptor(name string) *kvscheduler.DescriptorInfo {
	for _, d := range s.Snapshot().Descriptors() {
		if d.Name == name {
			return &d
		}
	}
	return nil
}

func (s server) serveStatus(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "key", "about*", "descriptor", "key-prefix", "state*")
	if err != nil {
		return err
	}
	if key := q.Get("key"); key != "" {
		return writeJSON(w, record.Status{BaseValueStatus: s.ValueStatus(key)}) // a single object, as in the ligato vpp-agent
	}
	states := map[pb.ValueState]bool{}
	for _, name := range q["state"] {
		state, err := record.ParseState(strings.ToUpper(name))
		if err != nil {
			return badRequest("argument %q: %v", "state", err)
		}
		states[state] = true
	}
	var of *kvscheduler.DescriptorInfo
	if name := q.Get("descriptor"); name != "" {
		if of = s.descriptor(name); of == nil {
			return notFound("unknown descriptor %q", name)
		}
	}
	list := record.Statuses{}
	statuses := s.ValueStatuses
	if q.Has("about") {
		statuses = func(prefix string) []*pb.BaseValueStatus { return s.statusesAbout(q["about"], prefix) }
	}
	for _, st := range statuses(q.Get("key-prefix")) {
		if of != nil && !of.Owns(st.Value.Key) || len(states) > 0 && !anyState(st, states) {
			continue
		}
		list = append(list, record.Status{BaseValueStatus: st})
	}
	return writeJSON(w, list)
}

// statusesAbout returns the statuses of the values with the keys, or of their base values.
func (s server) statusesAbout(keys []string, prefix string) (list []*pb.BaseValueStatus) {
	seen, bases := s.Snapshot(), map[string]bool{}
	for _, key := range keys {
		if v := seen.Get(key); v != nil {
			bases[cmp.Or(v.Base, key)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(bases)) {
		if strings.HasPrefix(key, prefix) {
			list = append(list, s.ValueStatus(key))
		}
	}
	return list
}

func anyState(st *pb.BaseValueStatus, states map[pb.ValueState]bool) bool {
	return states[st.Value.State] || slices.ContainsFunc(st.DerivedValues, func(d *pb.ValueStatus) bool { return states[d.State] })
}

func (s server) serveResync(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "retry", "verbose")
	if err != nil {
		return err
	}
	retry, err := boolArg(q, "retry")
	if err != nil {
		return err
	}
	opts := []kvscheduler.TxnOption{kvscheduler.WithResync(kvscheduler.DownstreamResync), kvscheduler.WithDescription("requested by REST")}
	if retry {
		opts = append(opts, kvscheduler.WithDefaultRetry())
	}
	seq, err := s.NewTransaction().Commit(r.Context(), opts...)
	if seq == kvscheduler.NoSeqNum {
		return err
	}
	w.Header().Set("Contiv-Transaction", strconv.FormatUint(uint64(seq), 10)) // for the audit log
	if t := s.RecordedTxn(seq); t != nil {
		return writeJSON(w, t)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, &record.Txn{SeqNum: seq, Type: kvscheduler.NBTransaction, Resync: kvscheduler.DownstreamResync})
}
