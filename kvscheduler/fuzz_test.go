package kvscheduler

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRESTArguments checks that every query gets JSON, text or a graph, and no status of 500 or above.
func FuzzRESTArguments(f *testing.F) {
	for _, seed := range []string{"format=json&last=1", "seq-num=0", "since=5&until=2020-01-01T00:00:00Z", "key=a/1", "time=1", "from=1&to=2",
		"flag=error&prefix=a/&prefix=b", "descriptor=a&view=NB", "state=PENDING", "%zz", "txn=0&format=dot", ";"} {
		f.Add(seed)
	}
	s := New(Options{Logger: quietLog()})
	f.Cleanup(func() { _ = s.Close() })
	sb := newSouthbound(f)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true})
	mustCommit(f, s, "a/1=x b/1=y")
	h := Upper.Handler(s)
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"txn-history", "dump", "status", "explain", "key-timeline", "graph-snapshot", "diff", "graph", "flag-stats"} {
			r := httptest.NewRequest("GET", "/scheduler/"+path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s?%s: not JSON: %s", path, query, w.Body)
			}
		}
	})
}

// FuzzPlanBody checks that no body of a plan panics or changes the state.
func FuzzPlanBody(f *testing.F) {
	f.Add(`{"Values":[{"Key":"a/1","Value":{"ProtoMsgName":"google.protobuf.StringValue","ProtoMsgData":"\"i\""}},{"Key":"a/3"}]}`)
	f.Add(`{"Values":[{"Key":"a/1","Value":{"ProtoMsgName":"google.protobuf.Struct","ProtoMsgData":{"a":[1,null]}}}],"ResyncType":"FullResync"}`)
	f.Add(`[]`)
	s := New(Options{Logger: quietLog()})
	f.Cleanup(func() { _ = s.Close() })
	sb := newSouthbound(f)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true, derive: true})
	mustCommit(f, s, "a/1=x b/1=y")
	h := Upper.Handler(s)
	revision := s.Revision()
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/scheduler/plan", strings.NewReader(body)))
		if w.Code != 200 && w.Code != 400 || s.Revision() != revision {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzRecordJSON checks that a decoded record survives encoding and decoding.
func FuzzRecordJSON(f *testing.F) {
	s := New(Options{Logger: quietLog()})
	sb := newSouthbound(f)
	sb.register(s, "a", parts{prefix: "a/", derive: true})
	sb.failNext("UPDATE a/1", errBoom)
	mustCommit(f, s, "a/1=x b/1=y")
	_, _ = commit(f, s, "a/1=x,y b/1")
	for _, r := range s.History(noTime, noTime) {
		b, _ := json.Marshal(r)
		f.Add(b)
	}
	_ = s.Close()
	f.Fuzz(func(t *testing.T, b []byte) {
		var r RecordedTxn
		if json.Unmarshal(b, &r) != nil {
			return
		}
		once, err := json.Marshal(&r)
		if err != nil {
			return // times out of range
		}
		var again RecordedTxn
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		twice, _ := json.Marshal(&again)
		if string(once) != string(twice) {
			t.Fatalf("%s\n%s", once, twice)
		}
		_ = r.String()
		_ = Upper.Draw(&strings.Builder{}, &r)
	})
}

// FuzzKeys checks that find returns the owner of any key, and that any key can be explained.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"", "a/", "a/b", "a/b/c", "ab", "\xff", "a/é", "a//"} {
		f.Add(key)
	}
	s := New(Options{Logger: quietLog()})
	f.Cleanup(func() { _ = s.Close() })
	sb := newSouthbound(f)
	for _, prefix := range []string{"a/", "b", "config/vpp/", "config/linux/"} {
		sb.register(s, prefix, parts{prefix: prefix})
	}
	mustCommit(f, s, "a/b=x b1=x config/vpp/v2/interfaces/tap1=x")
	f.Fuzz(func(t *testing.T, key string) {
		reg := s.registry.Load()
		var want *handler
		for _, h := range reg.ordered {
			if h.owns(key) {
				want = h
			}
		}
		if got := reg.find(key); got != want {
			t.Fatalf("%q: %v, want %v", key, got, want)
		}
		if Upper.Explain(s, key) == "" {
			t.Fatal(key)
		}
		_ = s.ValueStatus(key)
		_, _ = url.QueryUnescape(key)
	})
}
