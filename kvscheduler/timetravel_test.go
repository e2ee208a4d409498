package kvscheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// The graph at any recorded moment equals the graph at that time.
func TestGraphAtAnyRecordedMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			seed := rand.Uint64()
			r := newModelRun(randomModelSequence(rand.New(rand.NewPCG(seed, 1))))
			type moment struct {
				at     time.Time
				values []*ValueSnapshot
			}
			var moments []moment
			for _, step := range r.seq.Steps {
				if step.Op == "restart" || step.Op == "kill" {
					continue // a new process has no history
				}
				r.pass(time.Second)
				moments = append(moments, moment{time.Now(), r.s.Snapshot().Values()})
				r.pass(time.Second)
				r.step(step)
			}
			for i, m := range moments {
				got, err := r.s.graphAt(m.at)
				if err != nil {
					t.Fatalf("seed %d, moment %d: %v", seed, i, err)
				}
				if d := cmp.Diff(m.values, got, protocmp.Transform()); d != "" {
					t.Fatalf("seed %d, moment %d (-was +got):\n%s", seed, i, d)
				}
			}
			_ = r.s.Close()
		}
	})
}

// Committed returns the values after its transaction while later transactions are recorded.
func TestCommittedReturnsTheValuesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			seed := rand.Uint64()
			r := newModelRun(randomModelSequence(rand.New(rand.NewPCG(seed, 1))))
			type told struct {
				Committed
				values []*ValueSnapshot
			}
			var all []told
			r.s.recorder = func(c Committed) { all = append(all, told{c, r.s.Snapshot().Values()}) }
			for _, step := range r.seq.Steps {
				if step.Op != "restart" && step.Op != "kill" {
					r.step(step)
				}
			}
			for _, c := range all {
				after, err := c.After()
				if err != nil {
					t.Fatalf("seed %d, transaction %d: %v", seed, c.Txn.SeqNum, err)
				}
				if d := cmp.Diff(c.values, after.Values(), protocmp.Transform()); d != "" {
					t.Fatalf("seed %d, transaction %d (-was +got):\n%s", seed, c.Txn.SeqNum, d)
				}
			}
			_ = r.s.Close()
		}
	})
}

func TestCommittedOfDroppedTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Committed
		s, sb := newScheduler(t, func(o *Options) {
			o.History = HistoryLimits{Count: 2, InitPeriod: 1}
			o.Recorder = func(c Committed) { all = append(all, c) }
		}), newSouthbound(t)
		defer s.Close()
		sb.register(s, "a", parts{prefix: "a/"})
		time.Sleep(time.Second)
		for i := range 5 {
			mustCommit(t, s, fmt.Sprintf("a/%d=x", i))
		}
		for i, c := range all {
			after, err := c.After()
			if i < 2 && !errors.Is(err, ErrNotRecorded) || i >= 2 && err != nil {
				t.Errorf("transaction %d: %v", i, err)
			}
			if err == nil && len(after.Values()) != i+1 {
				t.Errorf("transaction %d left %d values, want %d", i, len(after.Values()), i+1)
			}
		}
	})
}

func TestTimelineAndDiff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		defer s.Close()
		sb.register(s, "a", parts{prefix: "a/", keyed: true})
		times := []time.Time{time.Now()}
		for _, change := range []string{"a/1=x", "a/2=x", "a/1=y a/2=z", "a/1"} {
			time.Sleep(time.Second)
			mustCommit(t, s, change)
			time.Sleep(time.Second)
			times = append(times, time.Now())
		}
		var got []string
		for _, r := range s.Timeline("a/1") {
			line := fmt.Sprintf("#%d", r.Txn)
			if r.Value == nil {
				line += " gone"
			} else {
				line += " " + record.Compact(r.Value.Want) + " " + r.Value.State.String()
			}
			if !r.Until.IsZero() {
				line += " " + r.Until.Sub(r.Since).String()
			}
			got = append(got, line)
		}
		wantList(t, "timeline", got, []string{`#0 "x" CONFIGURED 4s`, `#2 "y" CONFIGURED 2s`, "#3 gone"})
		for _, c := range []struct {
			from, to int
			want     []string
		}{
			{0, 1, []string{"+a/1"}}, {1, 4, []string{"-a/1", "+a/2"}}, {2, 3, []string{"~a/1", "~a/2"}}, {4, 2, []string{"+a/1", "~a/2"}}, {2, 2, nil},
		} {
			diffs, err := Upper.Diff(s, times[c.from], times[c.to])
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range diffs {
				switch {
				case d.From == nil:
					got = append(got, "+"+d.Key)
				case d.To == nil:
					got = append(got, "-"+d.Key)
				default:
					got = append(got, "~"+d.Key)
				}
			}
			wantList(t, "diff", got, c.want)
		}
	})
}

// A value that is read in an equivalent form has not changed.
func TestEquivalentReadBackIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		defer s.Close()
		sb.register(s, "a", parts{prefix: "a/", retrieve: true, equivalent: func(_ string, a, b text) bool {
			return strings.EqualFold(a.Value, b.Value)
		}})
		mustCommit(t, s, "a/1=x")
		sb.set("a/1", "X")
		time.Sleep(time.Second)
		before := time.Now()
		time.Sleep(time.Second)
		r := mustCommit(t, s, "a/1=x", WithResync(FullResync))
		wantOps(t, r)
		if now := s.Snapshot().Values()[0]; now.Txn != 0 || now.Have.(text).Value != "X" {
			t.Errorf("the value is %+v", now)
		}
		if timeline := s.Timeline("a/1"); len(timeline) != 1 {
			t.Errorf("timeline is %+v", timeline)
		}
		if diff, err := Upper.Diff(s, before, time.Time{}); err != nil || len(diff) != 0 {
			t.Errorf("difference is %+v, %v", diff, err)
		}

		mustCommit(t, s, "a/1=y")
		if timeline := s.Timeline("a/1"); len(timeline) != 2 || timeline[1].Txn != 2 {
			t.Errorf("timeline is %+v", timeline)
		}
	})
}

func TestW24HistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t, func(o *Options) {
			o.History = HistoryLimits{Count: 20, Age: time.Hour, Bytes: 1 << 20, InitPeriod: 10 * time.Second}
		}), newSouthbound(t)
		defer s.Close()
		sb.register(s, "a", parts{prefix: "a/"})
		start := time.Now()
		for i := range 100 {
			mustCommit(t, s, fmt.Sprintf("a/%d=%d", i%3, i))
			time.Sleep(time.Second)
		}
		h := s.History(noTime, noTime)
		if len(h) != 20 || h[9].SeqNum != 9 || h[10].SeqNum != 90 {
			t.Fatalf("%d records: …#%d #%d…", len(h), h[9].SeqNum, h[10].SeqNum)
		}
		if _, err := s.graphAt(start.Add(50 * time.Second)); !errors.Is(err, ErrNotRecorded) {
			t.Fatal(err)
		}
		for _, at := range []time.Duration{5500 * time.Millisecond, 95500 * time.Millisecond} {
			values, err := s.graphAt(start.Add(at))
			if err != nil || len(values) != 3 {
				t.Fatal(values, err)
			}
			last := int(at / time.Second)
			if got, want := values[last%3].Want.(text).Value, fmt.Sprint(last); got != want {
				t.Fatalf("after %v: %s, want %s", at, got, want)
			}
		}
		time.Sleep(2 * time.Hour)
		mustCommit(t, s, "a/1=last")
		if h = s.History(noTime, noTime); len(h) != 11 {
			t.Fatalf("%d records", len(h))
		}
		// The limit on bytes applies to the initial period, too.
		for i := range 100 {
			mustCommit(t, s, "a/big="+strings.Repeat(fmt.Sprint(i%10), 100_000))
		}
		if s.history.bytes > 1<<20 || len(s.History(noTime, noTime)) > 15 {
			t.Fatalf("%d bytes in %d records", s.history.bytes, len(s.History(noTime, noTime)))
		}
	})
}

func TestExplainNamesReasonsAndSimilarKeys(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "if", parts{prefix: "if/", keyed: true, invalid: "bad"})
	sb.register(s, "route", parts{prefix: "route/", depsOf: func(_, v string) []Dependency {
		return []Dependency{on("interface", "if/"+v), {Label: "any", AnyOf: AnyOf{KeyPrefixes: []string{"if/t"}}}}
	}})
	mustCommit(t, s, "if/tap0=x route/1=tapO route/2=tap0 route/3=broken")
	_, _ = commit(t, s, "if/broken=bad")
	sb.failNext("UPDATE if/tap0", errBoom)
	_, _ = commit(t, s, "if/tap0=y", WithRetry(Retry{Period: time.Hour}))
	for key, want := range map[string]string{
		"route/1":   "route/1 waits for if/tapO (interface), which does not exist; did you mean if/tap0?",
		"route/2":   "route/2 exists as requested.",
		"route/3":   "route/3 waits for if/broken (interface), which is INVALID",
		"if/broken": `if/broken is invalid: "bad" is not allowed (fields: value). Request a valid value.`,
		"if/tap0":   "if/tap0: update failed: boom. Retry 1 is due at ",
		"if/tap1":   "if/tap1 is unknown: it was not requested, and not found in the southbound.",
		"x/1":       "x/1 is unknown: it was not requested, and not found in the southbound. No descriptor is registered for this key.",
	} {
		if got := Upper.Explain(s, key); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", key, got, want)
		}
	}
	e := explained(t, s, "if/tap0")
	if e.NextRetry.IsZero() || strings.Join(e.NeededBy, " ") != "route/1 route/2 route/3" {
		t.Fatalf("%+v", e)
	}
	if e = explained(t, s, "if/tap1"); len(e.Similar) == 0 || e.Similar[0] != "if/tap0" {
		t.Fatal(e.Similar)
	}
	got := explained(t, s, "route/1")
	if got.Needs[0].Similar[0] != "if/tap0" || !got.Needs[1].Met || got.Value.State != pb.ValueState_PENDING {
		t.Fatalf("%+v", got)
	}
}

// explanation is the response of /scheduler/explain.
type explanation struct {
	Value *ValueSnapshot
	Needs []struct {
		Met     bool
		Similar []string
	}
	NeededBy, Similar []string
	NextRetry         time.Time
}

func explained(t *testing.T, s *Scheduler, key string) (e explanation) {
	t.Helper()
	get(t, s, "GET", "/scheduler/explain?key="+key, &e)
	return e
}

func TestRESTExploresHistoryAndGraph(t *testing.T) {
	s, _ := restScheduler(t)
	r := s.RecordedTxn(0)
	at := fmt.Sprint(r.Stop.UnixNano())
	var values []*ValueSnapshot
	get(t, s, "GET", "/scheduler/graph-snapshot?time="+at, &values)
	want, _ := s.graphAt(r.Stop)
	for _, v := range values {
		if m, ok := v.Metadata.(float64); ok {
			v.Metadata = int(m)
		}
	}
	if d := cmp.Diff(want, values, protocmp.Transform()); d != "" {
		t.Fatal(d)
	}
	var revisions []Revision
	get(t, s, "GET", "/scheduler/key-timeline?key=a/2", &revisions)
	if len(revisions) != 2 || revisions[0].Value == nil || revisions[1].Value != nil {
		t.Fatalf("%+v", revisions)
	}
	get(t, s, "GET", "/scheduler/key-timeline?key=a/2&time="+at, &revisions)
	if len(revisions) != 1 || revisions[0].Txn != 0 {
		t.Fatalf("%+v", revisions)
	}
	var diffs []record.Diff
	get(t, s, "GET", "/scheduler/diff?from="+at, &diffs)
	if len(diffs) == 0 || diffs[0].Key != "a/1" {
		t.Fatalf("%+v", diffs)
	}
	var stats struct {
		TotalCount    int
		PerValueCount map[string]int
	}
	get(t, s, "GET", "/scheduler/flag-stats?flag=value-state&prefix=b/", &stats)
	if stats.TotalCount != 1 || stats.PerValueCount["PENDING"] != 1 {
		t.Fatalf("%+v", stats)
	}
	var all Stats
	get(t, s, "GET", "/scheduler/stats", &all)
	if all.LastSeqNum != 2 || all.ValueStates["PENDING"] != 1 {
		t.Fatalf("%+v", all)
	}
	var dot, diagram string
	get(t, s, "GET", "/scheduler/graph?txn=0", &dot)
	if !strings.HasPrefix(dot, "digraph") || !strings.Contains(dot, `"b/1" -> "a/9" [label="a"`) {
		t.Fatal(dot)
	}
	get(t, s, "GET", "/scheduler/txn-history?seq-num=1&format=diagram", &diagram)
	for _, want := range []string{"sequenceDiagram\n", "participant D1 as a\n", "NB->>S: Delete a/2\n", "D1-xSB", "D1-->>S: boom\n", "S-->>NB: errors\n"} {
		if !strings.Contains(diagram, want) {
			t.Fatalf("no %q in\n%s", want, diagram)
		}
	}
	for path, code := range map[string]int{
		"/scheduler/key-timeline": 400, "/scheduler/explain?key=": 400, "/scheduler/diff": 400, "/scheduler/diff?from=x": 400,
		"/scheduler/graph?txn=77": 404, "/scheduler/graph?format=png": 400, "/scheduler/flag-stats?flag=x": 400,
	} {
		var e struct{ Error string }
		if got := get(t, s, "GET", path, &e); got != code || e.Error == "" {
			t.Errorf("%s: %d %s", path, got, e.Error)
		}
	}
}

func TestGraphListsMatchesOfAnAnyOf(t *testing.T) {
	s := newScheduler(t)
	net := newNetwork()
	for _, d := range []string{"interface", "unnumbered"} {
		if err := net.register(s, d); err != nil {
			t.Fatal(err)
		}
	}
	value := func(fields map[string]any) object {
		v, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	must(t, s.NewTransaction().
		Put("interface/lender", value(map[string]any{"type": "TAP", "ip": []any{"10.0.0.1", "fe80::1", "10.0.0.2"}})).
		Put("interface/borrower", value(map[string]any{"type": "TAP", "unnumbered-to": "lender"})))
	want := []Need{{Label: "lender-has-address", Target: "interface-address/lender/10.0.0.1"}, {Label: "lender-has-address", Target: "interface-address/lender/10.0.0.2"}}
	for _, v := range s.Snapshot().Values() {
		if v.Key == "unnumbered/borrower" && !slices.Equal(v.Matching, want) || v.Key != "unnumbered/borrower" && v.Matching != nil {
			t.Errorf("%s: %v", v.Key, v.Matching)
		}
	}
}

func TestRESTPlanChangesNothing(t *testing.T) {
	s, sb := restScheduler(t)
	sb.take()
	type planned struct{ Planned []RecordedOp }
	plan := func(body string) (int, planned, string) {
		w := httptest.NewRecorder()
		Upper.Handler(s).ServeHTTP(w, httptest.NewRequest("POST", "/scheduler/plan", strings.NewReader(body)))
		var reply planned
		var e struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(w.Body.Bytes(), &e)
		return w.Code, reply, e.Error
	}
	_, reply, _ := plan(`{"Values":[{"Key":"a/9","Value":{"ProtoMsgName":"google.protobuf.StringValue","ProtoMsgData":"\"i\""}},{"Key":"a/3"}]}`)
	wantList(t, "plan", opsOf(reply.Planned), []string{"DELETE a/3/x [DERIVED]", "DELETE a/3", "CREATE a/9", "CREATE b/1 [WAS-PENDING]", "CREATE a/9/i [DERIVED]"})
	wantCalls(t, sb)
	wantState(t, s, "a/3", pb.ValueState_CONFIGURED)
	for _, bad := range []string{"", "{", `{"Value":1}`, `{"ResyncType":"Half"}`, `{"Values":[{"Key":"a","Value":{"ProtoMsgName":"no.Such","ProtoMsgData":"{}"}}]}`,
		`{"Values":[{"Key":"","Value":null}]}`, `{} {}`, `{"ResyncType":"DownstreamResync","Values":[{"Key":"a/1"}]}`} {
		if code, _, text := plan(bad); code != http.StatusBadRequest || text == "" {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
}
