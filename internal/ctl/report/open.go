package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Open reads a report and returns agents that answer from it. Requests that were not packed, and
// requests that change something, are errors.
func Open(name string) (Meta, []*target.Agent, error) {
	wrong := func(err error) (Meta, []*target.Agent, error) {
		return Meta{}, nil, fmt.Errorf("%s is not a report of `contivctl report`: %w", name, err)
	}
	file, err := os.Open(name)
	if err != nil {
		return Meta{}, nil, err
	}
	defer file.Close()
	content, err := unpack(file)
	if err != nil {
		return wrong(err)
	}
	var meta Meta
	if err := decode(content, "report.json", &meta); err != nil {
		return wrong(err)
	}
	if meta.Format < 1 || meta.Format > format {
		return wrong(fmt.Errorf("its format is %d, but contivctl reads formats up to %d: use contivctl %s", meta.Format, format, meta.Version))
	}
	var agents []*target.Agent
	known, requests := map[string]bool{}, 0
	for _, n := range meta.Nodes {
		if known[n.Name] {
			return wrong(fmt.Errorf("report.json: node %q appears twice", n.Name))
		}
		known[n.Name] = true
		a, err := open(content, n, meta, &requests)
		if err != nil {
			return wrong(err)
		}
		agents = append(agents, a)
	}
	return meta, agents, nil
}

// decode decodes report.json or a node's index.
func decode(content fs.FS, name string, into any) error {
	info, err := fs.Stat(content, name)
	if err != nil {
		return err
	}
	if info.Size() > maxIndex {
		return fmt.Errorf("%s: %w: %d bytes, at most %d are allowed", name, errTooLarge, info.Size(), maxIndex)
	}
	data, err := fs.ReadFile(content, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// open returns the agent of a node and adds the number of its recorded answers to requests.
func open(content fs.FS, n Node, meta Meta, requests *int) (*target.Agent, error) {
	where := "report of " + meta.Time.Format(time.RFC3339)
	if n.Error != "" {
		return target.Unusable(n.Name, where, fmt.Errorf("when the report was made: %s", n.Error)), nil
	}
	directory := path.Join("nodes", url.PathEscape(n.Name))
	var index []entry
	if err := decode(content, directory+"/index.json", &index); err != nil {
		return nil, err
	}
	if *requests += len(index); *requests > maxFiles {
		return nil, fmt.Errorf("%w: more than %d answers", errTooLarge, maxFiles)
	}
	a := recorded{content: content, answers: map[string]answer{}}
	for _, e := range index {
		file := path.Join(directory, e.File)
		if _, err := fs.Stat(content, file); err != nil {
			return nil, err
		}
		a.answers[e.Request] = answer{request: e.Request, status: e.Status, file: file}
	}
	past, err := fs.Sub(content, directory+"/history")
	if err != nil {
		return nil, err
	}
	a.past = history.NewReader(past).Handler()
	a.keeps = a.answers[history.RunsURL].status == http.StatusOK
	return target.Served(n.Name, where, a), nil
}

// recorded holds the recorded answers of an agent.
type recorded struct {
	content fs.FS
	// answers by request. The bodies are in files of content; see answer.
	answers map[string]answer
	past    http.Handler
	keeps   bool // the agent kept a history
}

// answer returns the recorded answer to a request; false if none.
func (a recorded) answer(request string) (answer, bool) {
	found, ok := a.answers[request]
	if found.file != "" {
		body, err := fs.ReadFile(a.content, found.file)
		if err != nil {
			return refusal(http.StatusInternalServerError, err), true
		}
		found.body = body
	}
	return found, ok
}

// body returns the body of the recorded answer; nil if none.
func (a recorded) body(request string) []byte {
	found, _ := a.answer(request)
	return found.body
}

var errNotPacked = errors.New("not in the report: query the agent")

func (a recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request := r.URL.Path
	if len(query) > 0 {
		request += "?" + query.Encode()
	}
	switch {
	case r.Method != http.MethodGet:
		rest.Error(w, http.StatusBadRequest, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, errNotPacked))
	case strings.HasPrefix(r.URL.Path, history.URL):
		if !a.keeps {
			http.NotFound(w, r)
			return
		}
		a.past.ServeHTTP(w, r)
	case r.URL.Path == snapshotURL && query.Has("time"):
		values := a.remembered(r, history.ValuesURL, query)
		if values.status == http.StatusNotFound {
			values = listed(record.Values{})
		}
		write(w, values)
	case r.URL.Path == diffURL:
		diffs := a.remembered(r, history.DiffURL, query)
		if diffs.status == http.StatusNotFound {
			diffs = a.sinceNothing(r, query)
		}
		write(w, diffs)
	case r.URL.Path == txnsURL && a.answers[txnsURL].status == 0:
		write(w, a.rememberedTxns(r, query))
	default:
		recorded, exactly := a.answer(request)
		if !exactly {
			recorded = a.computed(r.URL.Path, query)
		}
		write(w, recorded)
	}
}

// A live scheduler answers from its memory since its start. In a report, the history answers
// instead.

// remembered answers from the history.
func (a recorded) remembered(r *http.Request, path string, query url.Values) answer {
	asked := r.Clone(r.Context())
	asked.URL.Path, asked.URL.RawQuery = path, query.Encode()
	w := written{header: http.Header{}, status: http.StatusOK}
	a.past.ServeHTTP(&w, asked)
	return answer{status: w.status, body: w.body.Bytes()}
}

// rememberedTxns returns the last run's transactions like a scheduler.
func (a recorded) rememberedTxns(r *http.Request, query url.Values) answer {
	all := a.remembered(r, history.TxnsURL, nil)
	if all.status != http.StatusOK {
		return all
	}
	var kept struct {
		Runs []history.Run
		Txns []struct {
			Run int
			Txn json.RawMessage
		}
	}
	if err := json.Unmarshal(all.body, &kept); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	var items []json.RawMessage
	for _, t := range kept.Txns {
		if n := len(kept.Runs); n > 0 && t.Run == kept.Runs[n-1].Run {
			items = append(items, t.Txn)
		}
	}
	return selectRecords(items, query, "transaction")
}

// sinceNothing returns the values at the later of two times as new.
func (a recorded) sinceNothing(r *http.Request, query url.Values) answer {
	at := cmp.Or(query.Get("to"), time.Now().Format(time.RFC3339Nano))
	then := a.remembered(r, history.ValuesURL, url.Values{"time": {at}})
	switch then.status {
	case http.StatusNotFound:
		return listed(record.Diffs{})
	case http.StatusOK:
	default:
		return then
	}
	var values record.Values
	if err := values.UnmarshalJSON(then.body); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	diffs := record.Diffs{}
	for _, v := range values {
		diffs = append(diffs, record.Diff{Key: v.Key, To: v})
	}
	return listed(diffs)
}

// written is an in-memory http.ResponseWriter.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header            { return w.header }
func (w *written) WriteHeader(status int)         { w.status = status }
func (w *written) Write(data []byte) (int, error) { return w.body.Write(data) }

func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	w.Write(a.body)
}

// computed derives an answer from the recorded answer to a more general request.
func (a recorded) computed(path string, query url.Values) answer {
	all, known := a.answer(path)
	if path == statusURL && !known {
		all, known = a.statuses(), true
	}
	switch {
	case path == readinessURL:
		verbose, _ := a.answer(readinessURL + "?verbose=")
		return verbose
	case path == dumpURL:
		return a.dump(query)
	case path == snapshotURL && known: // more than was asked for
		return all
	case path == snapshotURL:
		return a.explained()
	case path == inspect.KeysURL:
		return keysOf(a.computed(statusURL, nil))
	case path == service.URL && known && all.status == http.StatusOK:
		return a.services(all, query)
	case path == policy.URL && known && all.status == http.StatusOK:
		return selectPolicy(all, query.Get("policy"))
	case !known:
		return refusal(http.StatusBadRequest, fmt.Errorf("GET %s: %w", path, errNotPacked))
	case all.status != http.StatusOK:
		return all
	}
	var items []json.RawMessage
	if err := json.Unmarshal(all.body, &items); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	switch path {
	case eventsURL, txnsURL:
		return selectRecords(items, query, map[string]string{eventsURL: "event", txnsURL: "transaction"}[path])
	case explainURL, contributionsURL:
		for _, item := range items {
			if text(item, "Key") == query.Get("key") {
				return answer{status: http.StatusOK, body: item}
			}
		}
		return listed(map[string]string{"Key": query.Get("key")}) // nothing is known about it
	case feedback.URL:
		return listed(keep(items, func(item json.RawMessage) bool { return text(item, "value", "key") == query.Get("key") }))
	case statusURL:
		return selectStatuses(items, query)
	}
	return refusal(http.StatusBadRequest, fmt.Errorf("GET %s?%s: %w", path, query.Encode(), errNotPacked))
}

func keysOf(statuses answer) answer {
	var list []record.Status
	if statuses.status != http.StatusOK {
		return statuses
	}
	if err := json.Unmarshal(statuses.body, &list); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	keys := []string{}
	for _, s := range list {
		keys = append(keys, s.Keys()...)
	}
	return listed(keys)
}

func refusal(status int, err error) answer {
	body, _ := json.Marshal(rest.ErrorBody{Error: err.Error()})
	return answer{status: status, body: body}
}

func listed(v any) answer {
	var body bytes.Buffer
	to := json.NewEncoder(&body)
	to.SetEscapeHTML(false) // like agents in texts of values
	if err := to.Encode(v); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	return answer{status: http.StatusOK, body: body.Bytes()}
}

func keep(items []json.RawMessage, wanted func(json.RawMessage) bool) []json.RawMessage {
	kept := []json.RawMessage{}
	for _, item := range items {
		if wanted(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// text returns a member of a JSON object by path; "" if none.
func text(object json.RawMessage, names ...string) string {
	for _, name := range names {
		var members map[string]json.RawMessage
		if json.Unmarshal(object, &members) != nil {
			return ""
		}
		object = members[name]
	}
	var word string
	if json.Unmarshal(object, &word) == nil {
		return word
	}
	return string(object)
}

// selectRecords handles the arguments seq-num and last; the caller handles the others.
func selectRecords(items []json.RawMessage, query url.Values, what string) answer {
	if seq := query.Get("seq-num"); seq != "" {
		for _, item := range items {
			if text(item, "SeqNum") == seq {
				return answer{status: http.StatusOK, body: item}
			}
		}
		return refusal(http.StatusNotFound, fmt.Errorf("%s #%s is not in the history", what, seq))
	}
	if last, err := strconv.Atoi(query.Get("last")); err == nil && last < len(items) {
		items = items[len(items)-last:]
	}
	return listed(items)
}

// selectPolicy answers for the argument policy.
func selectPolicy(all answer, name string) answer {
	var report policy.Report
	if err := json.Unmarshal(all.body, &report); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	report.Policies = slices.DeleteFunc(report.Policies, func(p policy.PolicyReport) bool { return p.ID() != name })
	if len(report.Policies) == 0 {
		return refusal(http.StatusNotFound, policy.Unknown(name))
	}
	return listed(report)
}

// services handles the arguments service and endpoint.
func (a recorded) services(all answer, query url.Values) answer {
	report, err := a.fullServices(all)
	switch {
	case errors.Is(err, errNotPacked):
		return refusal(http.StatusBadRequest, err)
	case err != nil:
		return refusal(http.StatusInternalServerError, err)
	}
	name, address := query.Get("service"), query.Get("endpoint")
	var known []string
	selected := []service.ServiceReport{}
	for _, s := range report.Services {
		known = append(known, s.Namespace+"/"+s.Name)
		if query.Has("endpoint") {
			s.Details = slices.DeleteFunc(s.Details, func(e service.EndpointReport) bool {
				endpoint, err := netip.ParseAddrPort(e.Address)
				return err != nil || endpoint.Addr().String() != address && e.Listed != address
			})
		}
		if s.Namespace+"/"+s.Name == name || query.Has("endpoint") && len(s.Details) > 0 {
			selected = append(selected, s)
		}
	}
	if report.Services = selected; len(selected) == 0 && name != "" {
		return refusal(http.StatusNotFound, service.Unknown(name, report.Translator, known))
	}
	return listed(report)
}

// fullServices returns the full reports of all services. Reports before version 3 have one answer
// per service.
func (a recorded) fullServices(all answer) (report service.Report, err error) {
	if full, ok := a.answer(servicesURL); ok {
		err := json.Unmarshal(full.body, &report)
		if err == nil && slices.ContainsFunc(report.Services, func(s service.ServiceReport) bool { return s.Endpoints > 0 && len(s.Details) == 0 }) {
			err = fmt.Errorf("the agent is too old to return the endpoints of all services at once: %w", errNotPacked)
		}
		return report, err
	}
	if err := json.Unmarshal(all.body, &report); err != nil {
		return report, err
	}
	for i, s := range report.Services {
		var one service.Report
		request := service.URL + "?" + url.Values{"service": {s.Namespace + "/" + s.Name}}.Encode()
		if json.Unmarshal(a.body(request), &one) == nil && len(one.Services) == 1 {
			report.Services[i] = one.Services[0]
		}
	}
	return report, nil
}

// selectStatuses handles the arguments key, key-prefix and state.
func selectStatuses(items []json.RawMessage, query url.Values) answer {
	if key := query.Get("key"); key != "" {
		for _, item := range items {
			if text(item, "value", "key") == key {
				return answer{status: http.StatusOK, body: item}
			}
		}
		return listed(map[string]any{"value": map[string]string{"key": key}})
	}
	states := query["state"]
	return listed(keep(items, func(item json.RawMessage) bool {
		if !strings.HasPrefix(text(item, "value", "key"), query.Get("key-prefix")) {
			return false
		}
		if len(states) == 0 {
			return true
		}
		var status struct {
			Value         struct{ State string }
			DerivedValues []struct{ State string } `json:"derived_values"`
		}
		_ = json.Unmarshal(item, &status)
		of := func(state string) bool {
			return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, cmp.Or(state, "NONEXISTENT")) })
		}
		return of(status.Value.State) || slices.ContainsFunc(status.DerivedValues, func(d struct{ State string }) bool { return of(d.State) })
	}))
}

// dump handles the arguments view, descriptor and key-prefix.
func (a recorded) dump(query url.Values) answer {
	view := cmp.Or(query.Get("view"), "SB")
	all, known := a.answer(dumpURL + "?view=" + view)
	switch {
	case known:
	case view == "NB" || view == "cached":
		all = a.explainedDump(view)
	default:
		return refusal(http.StatusBadRequest, fmt.Errorf("GET %s?%s: %w", dumpURL, query.Encode(), errNotPacked))
	}
	if all.status != http.StatusOK {
		return all
	}
	descriptor := query.Get("descriptor")
	var index struct{ Descriptors []string }
	if json.Unmarshal(a.body(dumpURL), &index) == nil && descriptor != "" && !slices.Contains(index.Descriptors, descriptor) {
		return refusal(http.StatusNotFound, fmt.Errorf("unknown descriptor %q", descriptor))
	}
	var items []json.RawMessage
	if err := json.Unmarshal(all.body, &items); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	return listed(keep(items, func(item json.RawMessage) bool {
		return strings.HasPrefix(text(item, "Key"), query.Get("key-prefix")) && (descriptor == "" || text(item, "Descriptor") == descriptor)
	}))
}

// explained returns the explained values.
func (a recorded) explained() answer {
	all, known := a.answer(explainURL)
	if !known {
		return refusal(http.StatusBadRequest, fmt.Errorf("GET %s: %w", explainURL, errNotPacked))
	}
	if all.status != http.StatusOK {
		return all
	}
	var explanations []struct{ Value json.RawMessage }
	if err := json.Unmarshal(all.body, &explanations); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	var values [][]byte
	for _, e := range explanations {
		if len(e.Value) > 0 && string(e.Value) != "null" { // older agents write null
			values = append(values, e.Value)
		}
	}
	return answer{status: http.StatusOK, body: slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))}
}

func (a recorded) statuses() answer {
	all := a.explained()
	if all.status != http.StatusOK {
		return all
	}
	var values record.Values
	if err := values.UnmarshalJSON(all.body); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	byKey := make(map[string]*pb.ValueStatus, len(values))
	for _, v := range values {
		err := v.Error
		if err == "" && v.State == pb.ValueState_UNIMPLEMENTED {
			err = kvscheduler.ErrNoDescriptor.Error()
		}
		byKey[v.Key] = &pb.ValueStatus{Key: v.Key, State: v.State, LastOperation: v.LastOperation, Error: err, Details: v.Details}
	}
	list := record.Statuses{}
	for _, v := range values {
		if v.Base != "" {
			continue
		}
		status := record.Status{BaseValueStatus: &pb.BaseValueStatus{Value: byKey[v.Key]}}
		for _, key := range v.Derived {
			if derived := byKey[key]; derived != nil {
				status.DerivedValues = append(status.DerivedValues, derived)
			}
		}
		list = append(list, status)
	}
	return answer{status: http.StatusOK, body: list.AppendJSON(nil)}
}

// explainedDump returns a view of the explained values like a scheduler's dump.
func (a recorded) explainedDump(view string) answer {
	all := a.explained()
	if all.status != http.StatusOK {
		return all
	}
	var values record.Values
	if err := values.UnmarshalJSON(all.body); err != nil {
		return refusal(http.StatusInternalServerError, err)
	}
	dump := record.Dump{}
	for _, v := range values {
		d := record.Dumped{Key: v.Key, Descriptor: v.Descriptor, Value: v.Have, Metadata: v.Metadata, Origin: v.Origin, State: v.State}
		if view == "NB" {
			d.Value, d.Metadata = v.Want, nil
			if v.Base != "" || v.Origin == record.FromSB {
				continue
			}
		}
		if d.Value != nil {
			dump = append(dump, d)
		}
	}
	return listed(dump)
}
