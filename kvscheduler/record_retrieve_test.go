package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A resync reads all values, a failure reads only the failed ones. The record has both, in order.
func TestRetrievesAreRecorded(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true})
	mustCommit(t, s, "a/1=x a/2=x")
	sb.failNext("CREATE a/3", errBoom)
	_, _ = commit(t, s, "a/3=x a/4=x")
	_, err := s.NewTransaction().Commit(t.Context(), WithResync(DownstreamResync))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, txn := range s.History(noTime, noTime) {
		for _, r := range txn.Retrieved {
			got = append(got, fmt.Sprintf("#%d after %d: %v", txn.SeqNum, r.After, r))
			if r.Duration <= 0 {
				t.Errorf("%v: took %v", r, r.Duration)
			}
		}
	}
	want := []string{
		"#1 after 2: RETRIEVE  a: a/3  nothing found",
		"#2 after 0: RETRIEVE  a: all  3 found",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The record of a failed Retrieve contains its error, also over REST.
func TestFailedRetrieveIsRecorded(t *testing.T) {
	s := newScheduler(t)
	if err := Register(s, Descriptor[text, NoMetadata]{
		Name: "a", Keys: KeySpace{Prefix: "a/"}, NB: true,
		Create:   func(context.Context, string, text) (NoMetadata, error) { return NoMetadata{}, nil },
		Delete:   func(context.Context, string, text, NoMetadata) error { return nil },
		Retrieve: func(context.Context, []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) { return nil, errBoom },
	}); err != nil {
		t.Fatal(err)
	}
	seq, err := s.NewTransaction().Commit(t.Context(), WithResync(FullResync))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	var txn RecordedTxn
	get(t, s, "GET", fmt.Sprintf("/scheduler/txn-history?seq-num=%d", seq), &txn)
	if len(txn.Retrieved) != 1 || message(txn.Retrieved[0].Err) != errBoom.Error() || txn.Retrieved[0].Descriptor != "a" {
		t.Fatalf("%+v", txn.Retrieved)
	}
	var diagram strings.Builder
	if err := Upper.Draw(&diagram, &txn); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"S->>D1: Retrieve all", "D1-xSB: read", "D1-->>S: error: " + errBoom.Error()} {
		if !strings.Contains(diagram.String(), want) {
			t.Errorf("no %q in\n%s", want, diagram.String())
		}
	}
}

// The record names at most maxRecordedKeys keys.
func TestRecordedKeysAreBounded(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true})
	txn := s.NewTransaction()
	for i := range 100 {
		key := fmt.Sprintf("a/%03d", i)
		txn.Put(key, val("x"))
		sb.failNext("CREATE "+key, errBoom)
	}
	seq, _ := txn.Commit(t.Context())
	reads := s.RecordedTxn(seq).Retrieved
	if len(reads) != 1 || len(reads[0].Keys) != maxRecordedKeys || reads[0].MoreKeys != 100-maxRecordedKeys || !slices.IsSorted(reads[0].Keys) {
		t.Fatalf("%+v", reads)
	}
	if got := reads[0].Asked(); !strings.HasSuffix(got, "a/015 and 84 more") {
		t.Error(got)
	}
}

// Retrieve may return values in any order. Of duplicate keys, the first value counts.
func TestRetrieveInAnyOrder(t *testing.T) {
	found := []Item[text, NoMetadata]{{Key: "a/3", Value: val("x")}, {Key: "a/1", Value: val("first")}, {Key: "a/2", Value: val("x")}, {Key: "a/1", Value: val("second")}}
	s := newScheduler(t)
	if err := Register(s, Descriptor[text, NoMetadata]{Name: "a", Keys: KeySpace{Prefix: "a/"},
		Retrieve: func(context.Context, []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) { return found, nil },
	}); err != nil {
		t.Fatal(err)
	}
	must(t, s.NewTransaction(), WithResync(FullResync))
	var got []string
	for _, st := range s.ValueStatuses("") {
		n, _ := s.view().Get(st.Value.Key)
		got = append(got, n.key+"="+n.have.(text).Value)
	}
	wantList(t, "values", got, []string{"a/1=first", "a/2=x", "a/3=x"})
}
