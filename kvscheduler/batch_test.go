package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// batching adds batch callbacks to the mock descriptor. A batch is recorded as one call.
func batching(sb *southbound, d Descriptor[text, int]) Descriptor[text, int] {
	d.CreateBatch = func(_ context.Context, values []Item[text, int]) ([]int, []error) {
		metas, errs := make([]int, len(values)), make([]error, len(values))
		var keys []string
		for i, it := range values {
			keys = append(keys, it.Key)
			metas[i] = i
			if it.Value.Value == "fail" {
				errs[i] = errBoom
			} else {
				sb.set(it.Key, it.Value.Value)
			}
		}
		if err := sb.called("CREATE", strings.Join(keys, "+")); err != nil {
			return nil, []error{err}
		}
		return metas, errs
	}
	d.DeleteBatch = func(_ context.Context, values []Item[text, int]) []error {
		var keys []string
		for _, it := range values {
			keys = append(keys, it.Key)
			sb.unset(it.Key)
		}
		_ = sb.called("DELETE", strings.Join(keys, "+"))
		return nil
	}
	return d
}

func TestIndependentOperationsAreBatched(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "if", parts{prefix: "if/", keyed: true})
	routes := batching(sb, sb.descriptor("route", parts{prefix: "route/", keyed: true, depsOf: func(_, v string) []Dependency {
		return []Dependency{on("interface", "if/"+v)}
	}}))
	if err := Register(s, routes); err != nil {
		t.Fatal(err)
	}
	// The values that wait for one interface are created in one batch.
	mustCommit(t, s, "route/1=a route/2=a route/3=b route/4=a")
	mustCommit(t, s, "if/a=x")
	wantCalls(t, sb, "CREATE if/a", "CREATE route/1+route/2+route/4")
	mustCommit(t, s, "if/b=x route/5=a route/6=b")
	wantCalls(t, sb, "CREATE if/b", "CREATE route/3", "CREATE route/5+route/6")
	if m, _ := s.Metadata("route", "route/6"); m != 1 {
		t.Fatalf("metadata %v", m)
	}
	r := mustCommit(t, s, "route/1 route/2 if/b route/6")
	wantCalls(t, sb, "DELETE route/3", "DELETE route/6", "DELETE if/b", "DELETE route/1+route/2")
	if len(r.Executed) != 5 {
		t.Fatal(r)
	}
}

func TestFailureInABatchFailsOneValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	if err := Register(s, batching(sb, sb.descriptor("a", parts{prefix: "a/", keyed: true}))); err != nil {
		t.Fatal(err)
	}
	r, err := commit(t, s, "a/1=x a/2=fail a/3=x")
	if errs := errorsOf(err); len(errs) != 1 || errs[0].Key != "a/2" || !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	wantCalls(t, sb, "CREATE a/1+a/2+a/3", "RETRIEVE a/2")
	wantOps(t, r, "CREATE a/1", "CREATE a/2 [FAILED]", "CREATE a/3")
	wantState(t, s, "a/3", pb.ValueState_CONFIGURED)
	// A revert removes all values of the batch.
	_, err = commit(t, s, "a/4=x a/5=fail a/6=x", WithRevert())
	var te *TransactionError
	if !errors.As(err, &te) || !te.Reverted {
		t.Fatal(err)
	}
	wantList(t, "southbound", sb.content(), []string{"a/1=x", "a/3=x"})
}

func TestFailedBatchFailsAllItsValues(t *testing.T) {
	for name, spoil := range map[string]func(sb *southbound){
		"panic":           func(sb *southbound) { sb.hook = func(string) { panic("oops") } },
		"too few results": func(sb *southbound) { sb.failNext("CREATE a/1+a/2+a/3", errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			s, sb := newScheduler(t), newSouthbound(t)
			if err := Register(s, batching(sb, sb.descriptor("a", parts{prefix: "a/"}))); err != nil {
				t.Fatal(err)
			}
			spoil(sb)
			_, err := commit(t, s, "a/1=x a/2=x a/3=x")
			if len(errorsOf(err)) != 3 {
				t.Fatal(err)
			}
		})
	}
}

func TestBatchesAreBounded(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	if err := Register(s, batching(sb, sb.descriptor("a", parts{prefix: "a/"}))); err != nil {
		t.Fatal(err)
	}
	txn := s.NewTransaction()
	for i := range largestBatch + 1 {
		txn.Put(fmt.Sprintf("a/%04d", i), val("x"))
	}
	must(t, txn)
	if calls := sb.take(); len(calls) != 2 || calls[1] != fmt.Sprintf("CREATE a/%04d", largestBatch) {
		t.Fatalf("%d calls", len(calls))
	}
}
