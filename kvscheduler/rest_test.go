package kvscheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// get decodes a response of the REST API into v, and returns its HTTP status.
func get(t *testing.T, s *Scheduler, method, path string, v any) int {
	t.Helper()
	w := httptest.NewRecorder()
	Upper.Handler(s).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	if text, ok := v.(*string); ok {
		*text = w.Body.String()
	} else if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, w.Body)
	}
	return w.Code
}

func restScheduler(t *testing.T) (*Scheduler, *southbound) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true, derive: true})
	sb.register(s, "b", parts{prefix: "b/", retrieve: true, depsOf: func(string, string) []Dependency { return []Dependency{on("a", "a/9")} }})
	mustCommit(t, s, "a/1=i a/2=j b/1=x", WithDescription("first"), WithSimulation())
	sb.failNext("UPDATE a/1", errBoom)
	_, _ = commit(t, s, "a/1=i,k a/2")
	mustCommit(t, s, "a/3=x")
	return s, sb
}

func TestRESTHistory(t *testing.T) {
	s, _ := restScheduler(t)
	var txns []*RecordedTxn
	get(t, s, "GET", "/scheduler/txn-history", &txns)
	want := s.History(noTime, noTime)
	sameErrors := cmp.Comparer(func(a, b error) bool { return message(a) == message(b) })
	if d := cmp.Diff(want, txns, protocmp.Transform(), sameErrors); d != "" {
		t.Fatalf("decoded history differs (-want +got):\n%s", d)
	}
	for args, seqs := range map[string][]uint64{
		"first=1": {0}, "last=1": {2}, "last=2": {1, 2}, "first=2&last=1": {1},
		"since=" + url.QueryEscape(want[2].Start.Format("2006-01-02T15:04:05.999999999Z07:00")): {2},
		"until=1": nil,
	} {
		txns = nil
		get(t, s, "GET", "/scheduler/txn-history?"+args, &txns)
		var got []uint64
		for _, x := range txns {
			got = append(got, x.SeqNum)
		}
		if !slices.Equal(got, seqs) {
			t.Errorf("%s: %v, want %v", args, got, seqs)
		}
	}
	var one RecordedTxn
	get(t, s, "GET", "/scheduler/txn-history?seq-num=1", &one)
	if one.SeqNum != 1 || len(one.Executed) != len(want[1].Executed) {
		t.Fatal(one)
	}
	var text string
	get(t, s, "GET", "/scheduler/txn-history?format=text&seq-num=1", &text)
	if text != want[1].String() || !strings.Contains(text, "UPDATE [FAILED]  a/1") {
		t.Fatal(text)
	}
}

func TestRESTErrors(t *testing.T) {
	s, _ := restScheduler(t)
	for path, want := range map[string]int{
		"/scheduler/txn-history?seq-num=99":    http.StatusNotFound,
		"/scheduler/txn-history?seq-num=x":     http.StatusBadRequest,
		"/scheduler/txn-history?format=xml":    http.StatusBadRequest,
		"/scheduler/txn-history?since=monday":  http.StatusBadRequest,
		"/scheduler/txn-history?last=-1":       http.StatusBadRequest,
		"/scheduler/txn-history?sequence=1":    http.StatusBadRequest,
		"/scheduler/txn-history?last=1&last=2": http.StatusBadRequest,
		"/scheduler/dump?view=other":           http.StatusBadRequest,
		"/scheduler/dump?descriptor=none":      http.StatusNotFound,
		"/scheduler/status?descriptor=none":    http.StatusNotFound,
		"/scheduler/status?state=SLEEPING":     http.StatusBadRequest,
	} {
		var e struct{ Error string }
		if code := get(t, s, "GET", path, &e); code != want || e.Error == "" {
			t.Errorf("%s: %d %q, want %d", path, code, e.Error, want)
		}
	}
}

func TestRESTDump(t *testing.T) {
	s, _ := restScheduler(t)
	for name, view := range map[string]View{"SB": SBView, "NB": NBView, "cached": CachedView} {
		want, err := s.Dump(t.Context(), view, DumpFilter{KeyPrefix: "a/"})
		if err != nil {
			t.Fatal(err)
		}
		var got []DumpedValue
		get(t, s, "GET", "/scheduler/dump?key-prefix=a/&view="+name, &got)
		for i := range got {
			if m, ok := got[i].Metadata.(float64); ok {
				got[i].Metadata = int(m)
			}
		}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			t.Errorf("view %s (-want +got):\n%s", name, d)
		}
	}
	type index struct{ Descriptors, KeyPrefixes, Views []string }
	var ix index
	get(t, s, "GET", "/scheduler/dump", &ix)
	if !reflect.DeepEqual(ix, index{[]string{"a", "b"}, []string{"a/", "b/"}, []string{"SB", "NB", "cached"}}) {
		t.Fatal(ix)
	}
}

// TestRESTDumpForm checks the form that agentctl expects, with numeric origins.
func TestRESTDumpForm(t *testing.T) {
	s, _ := restScheduler(t)
	var got string
	get(t, s, "GET", "/scheduler/dump?key-prefix=a/3&view=cached", &got)
	want, err := os.ReadFile("testdata/dump.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
}

func TestRESTStatus(t *testing.T) {
	s, _ := restScheduler(t)
	for args, want := range map[string][]string{
		"":                            {"a/1", "a/3", "b/1"},
		"?key-prefix=a/":              {"a/1", "a/3"},
		"?descriptor=b":               {"b/1"},
		"?state=PENDING":              {"b/1"},
		"?state=FAILED&state=PENDING": {"a/1", "b/1"},
		"?about=b/1&about=a/3":        {"a/3", "b/1"},
		"?about=none":                 nil,
	} {
		var sts []record.Status
		get(t, s, "GET", "/scheduler/status"+args, &sts)
		var keys []string
		for _, st := range sts {
			keys = append(keys, st.Value.Key)
		}
		if !slices.Equal(keys, want) {
			t.Errorf("%s: %v, want %v", args, keys, want)
		}
	}
	// The response for a key is a single status, as in the ligato vpp-agent.
	var one record.Status
	get(t, s, "GET", "/scheduler/status?key=none", &one)
	if one.Value.Key != "none" || one.Value.State != pb.ValueState_NONEXISTENT {
		t.Error(one)
	}
	get(t, s, "GET", "/scheduler/status?key=b/1", &one)
	if v := one.Value; v.State != pb.ValueState_PENDING || v.Details[0] != "a" || v.LastOperation != pb.TxnOperation_UNDEFINED { // no operation was executed
		t.Fatal(v)
	}
}

func TestRESTKeysAndGraph(t *testing.T) {
	s, _ := restScheduler(t)
	var keys []string
	get(t, s, "GET", "/scheduler/keys", &keys)
	var all, some []record.Value
	get(t, s, "GET", "/scheduler/graph-snapshot", &all)
	var inGraph []string
	for _, v := range all {
		inGraph = append(inGraph, v.Key)
	}
	if len(keys) == 0 || !slices.Equal(keys, inGraph) {
		t.Errorf("keys are %v, but the graph has %v", keys, inGraph)
	}
	get(t, s, "GET", "/scheduler/graph-snapshot?outline=true&key=a/3&key=none", &some)
	if len(some) != 2 || some[0].Key != "a/3" || some[1].Key != "a/3/x" || some[0].Want != nil || some[0].State != pb.ValueState_CONFIGURED {
		t.Errorf("outline of a/3 is %+v", some)
	}
}

// An outline counts the operations that it omits.
func TestOutlineCountsOperations(t *testing.T) {
	txn := RecordedTxn{SeqNum: 7, Type: SBNotification, Description: "add pod", Values: []KeyValue{{Key: "a/1", Value: val("x")}, {Key: "a/2"}},
		Executed: []RecordedOp{{Operation: pb.TxnOperation_CREATE, Key: "a/1", NewValue: val("x")}, {Operation: pb.TxnOperation_UPDATE, Key: "a/3", NewErr: errBoom}}}
	outline := func() (o record.Outline) {
		data, err := json.Marshal(&txn)
		if err == nil {
			err = json.Unmarshal(data, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := outline()
	if o.SeqNum != 7 || o.Type != SBNotification || o.Description != "add pod" || o.Operations != 2 || o.Failed != 1 || len(o.Executed) > 0 {
		t.Errorf("%+v", o)
	}
	if len(o.Values) != 2 || o.Values[0].Value == nil || o.Values[1].Value != nil {
		t.Errorf("outline of a notification has the values %+v", o.Values)
	}
	txn.Type = NBTransaction
	if o := outline(); len(o.Values) > 0 {
		t.Errorf("%+v", o.Values)
	}
}

func TestRESTDownstreamResyncRepairs(t *testing.T) {
	s, sb := restScheduler(t)
	sb.unset("a/3")
	var r RecordedTxn
	if code := get(t, s, "POST", "/scheduler/downstream-resync?retry=1", &r); code != http.StatusOK {
		t.Fatal(code)
	}
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	if ops := opsOf(r.Executed); !slices.Contains(ops, "CREATE a/3 [WAS-MISSING]") {
		t.Fatal(ops)
	}
}

func TestTextOfATransaction(t *testing.T) {
	r := &RecordedTxn{SeqNum: 7, Type: NBTransaction, Description: "add pod", Values: []KeyValue{{Key: "a/1", Value: val("x")}, {Key: "a/2"}},
		Executed: []RecordedOp{
			{Operation: pb.TxnOperation_CREATE, Key: "a/1", NewState: pb.ValueState_PENDING, NewValue: val("x y"), NOOP: true},
			{Operation: pb.TxnOperation_UPDATE, Key: "a/3", PrevState: pb.ValueState_CONFIGURED, NewState: pb.ValueState_FAILED,
				PrevValue: val("1"), NewValue: val("2"), NewErr: errBoom, Duration: 1500000},
			{Operation: pb.TxnOperation_DELETE, Key: "a/2", NewState: pb.ValueState_REMOVED, PrevState: pb.ValueState_CONFIGURED, PrevValue: val("z")},
		}}
	want := `#7 NB Transaction "add pod"  00:00:00.000  0s (southbound 0s)
  values:
    a/1  "x"
    a/2  deleted
  executed:
    1. CREATE [NOOP IS-PENDING]  a/1
         "x y"
    2. UPDATE [FAILED]  a/3  1.5ms
         "1"
      -> "2"
         error: boom
    3. DELETE  a/2
         "z"
`
	if got := r.String(); got != want {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}
