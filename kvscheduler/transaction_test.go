package kvscheduler

import (
	"errors"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func abc(t *testing.T) (*Scheduler, *southbound) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "descriptor-a", parts{prefix: "a/", derive: true, retrieve: true})
	sb.register(s, "descriptor-b", parts{prefix: "b/", derive: true, retrieve: true, deps: map[string][]Dependency{
		"b/1/item1": {on("a/1", "a/1")}, "b/1/item2": {on("a/1/item1", "a/1/item1")}}})
	sb.register(s, "descriptor-c", parts{prefix: "c/", derive: true, retrieve: true, recreate: true})
	return s, sb
}

func TestDataChangeTransactions(t *testing.T) {
	s, sb := abc(t)
	txn := s.NewTransaction().Put("a/1", val("item2")).Put("b/1", val("item1,item2")).Put("c/1", val("item1,item2"))
	plan, err := txn.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantCalls(t, sb)
	r := mustCommit(t, s, "a/1=item2 b/1=item1,item2 c/1=item1,item2", WithDescription("testing data change"), WithSimulation())
	wantOps(t, r,
		"CREATE a/1", "CREATE a/1/item2 [DERIVED]",
		"CREATE b/1", "CREATE b/1/item1 [DERIVED]", "CREATE b/1/item2 [DERIVED NOOP IS-PENDING]",
		"CREATE c/1", "CREATE c/1/item1 [DERIVED]", "CREATE c/1/item2 [DERIVED]")
	wantList(t, "plan", opsOf(plan), opsOf(r.Executed))
	wantList(t, "recorded plan", opsOf(r.Planned), opsOf(r.Executed))
	wantCalls(t, sb, "CREATE a/1", "CREATE a/1/item2", "CREATE b/1", "CREATE b/1/item1",
		"CREATE c/1", "CREATE c/1/item1", "CREATE c/1/item2")
	if r.SeqNum != 0 || r.Description != "testing data change" || r.Type != NBTransaction {
		t.Fatalf("record: %+v", r)
	}
	wantState(t, s, "b/1/item2", pb.ValueState_PENDING, "a/1/item1")
	meta, ok := s.Metadata("descriptor-c", "c/1")
	if !ok {
		t.Fatal("no metadata of c/1")
	}

	r = mustCommit(t, s, "a/1=item1 c/1=item1")
	wantOps(t, r,
		"DELETE c/1/item1 [DERIVED]", "DELETE c/1/item2 [DERIVED]", "DELETE c/1 [RECREATE]",
		"CREATE c/1 [RECREATE]", "CREATE c/1/item1 [DERIVED]",
		"DELETE a/1/item2 [DERIVED]", "UPDATE a/1", "CREATE a/1/item1 [DERIVED]", "CREATE b/1/item2 [DERIVED WAS-PENDING]")
	wantCalls(t, sb, "DELETE c/1/item1", "DELETE c/1/item2", "DELETE c/1", "CREATE c/1", "CREATE c/1/item1",
		"DELETE a/1/item2", "UPDATE a/1", "CREATE a/1/item1", "CREATE b/1/item2")
	if now, ok := s.Metadata("descriptor-c", "c/1"); !ok || now == meta {
		t.Fatalf("metadata of c/1 after re-creation: %v, was %v", now, meta)
	}
	if prev := r.Executed[4].PrevState; prev != pb.ValueState_NONEXISTENT {
		t.Fatalf("c/1/item1 was %v", prev)
	}
}

func TestDataChangeTransactionWithRevert(t *testing.T) {
	s, sb := abc(t)
	mustCommit(t, s, "a/1=item2 b/1=item1,item2 c/1=item1,item2")
	before := sb.content()
	sb.take()
	sb.failNext("UPDATE a/1", errBoom)
	r, err := commit(t, s, "a/1=item1 c/1=item1", WithRevert())
	var te *TransactionError
	if !errors.As(err, &te) || !te.Reverted || len(te.Errors) != 1 || te.Errors[0].Key != "a/1" || !errors.Is(err, errBoom) {
		t.Fatalf("error: %v", err)
	}
	wantCalls(t, sb,
		"DELETE c/1/item1", "DELETE c/1/item2", "DELETE c/1", "CREATE c/1", "CREATE c/1/item1",
		"DELETE a/1/item2", "UPDATE a/1", "RETRIEVE descriptor-a",
		"UPDATE a/1", "CREATE a/1/item2",
		"DELETE c/1/item1", "DELETE c/1", "CREATE c/1", "CREATE c/1/item1", "CREATE c/1/item2")
	for i, op := range r.Executed {
		if op.IsRevert != (i >= 7) {
			t.Fatalf("operation %d: IsRevert is %v\n%s", i+1, op.IsRevert, r)
		}
	}
	if r.Executed[6].NewState != pb.ValueState_FAILED {
		t.Fatalf("forward failure is %v", r.Executed[6].NewState)
	}
	wantList(t, "southbound", sb.content(), before)
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	wantState(t, s, "b/1/item2", pb.ValueState_PENDING, "a/1/item1")
}

func TestDependencyCycles(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", deps: map[string][]Dependency{
		"a/1": {on("a/2", "a/2")}, "a/2": {on("a/3", "a/3")}, "a/3": {on("a/4", "a/4"), on("a/1", "a/1")}}})
	r := mustCommit(t, s, "a/1=x a/2=x a/3=x")
	wantOps(t, r, "CREATE a/1 [NOOP IS-PENDING]", "CREATE a/2 [NOOP IS-PENDING]", "CREATE a/3 [NOOP IS-PENDING]")
	wantState(t, s, "a/1", pb.ValueState_PENDING, "a/2")
	wantState(t, s, "a/2", pb.ValueState_PENDING, "a/3")
	wantState(t, s, "a/3", pb.ValueState_PENDING, "a/4", "a/1")
	wantCalls(t, sb)

	mustCommit(t, s, "a/4=x")
	wantCalls(t, sb, "CREATE a/4", "CREATE a/3", "CREATE a/2", "CREATE a/1")

	sb.failNext("DELETE a/2", errBoom)
	r, err := commit(t, s, "a/2")
	if err == nil {
		t.Fatal("no error")
	}
	wantOps(t, r, "DELETE a/3 [IS-PENDING]", "DELETE a/1 [IS-PENDING]", "DELETE a/2 [FAILED]")
	wantState(t, s, "a/2", pb.ValueState_FAILED)
	wantState(t, s, "a/1", pb.ValueState_PENDING, "a/2")
	wantState(t, s, "a/3", pb.ValueState_PENDING, "a/1")

	mustCommit(t, s, "a/2=y")
	for _, key := range []string{"a/1", "a/2", "a/3", "a/4"} {
		wantState(t, s, key, pb.ValueState_CONFIGURED)
	}
}

func TestFailedDeleteOfDerivedValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, retrieve: true})
	mustCommit(t, s, "a/1=item1")
	sb.take()
	sb.failNext("DELETE a/1/item1", errBoom)
	r, err := commit(t, s, "a/1")
	if err == nil {
		t.Fatal("no error")
	}
	wantOps(t, r, "DELETE a/1/item1 [DERIVED FAILED]", "DELETE a/1 [FAILED]")
	wantCalls(t, sb, "DELETE a/1/item1", "RETRIEVE a")
	wantState(t, s, "a/1", pb.ValueState_FAILED)
	wantState(t, s, "a/1/item1", pb.ValueState_FAILED)
	// The next resync deletes the remaining value.
	mustCommit(t, s, "", WithResync(DownstreamResync))
	wantCalls(t, sb, "RETRIEVE a", "DELETE a/1/item1", "DELETE a/1")
	wantState(t, s, "a/1", pb.ValueState_NONEXISTENT)
}

func TestFailedRecreateOfDerivedValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "base", parts{prefix: "a/"})
	_ = sb
	d := sb.descriptor("derived", parts{prefix: "derived/", recreate: true, noNB: true})
	if err := Register(s, d); err != nil {
		t.Fatal(err)
	}
	base := sb.descriptor("deriving", parts{prefix: "b/"})
	base.DerivedValues = func(_ string, v text) []KeyValue { return []KeyValue{{Key: "derived/x", Value: v}} }
	if err := Register(s, base); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, "b/1=v1")
	sb.take()
	sb.failNext("CREATE derived/x", errBoom)
	r, err := commit(t, s, "b/1=v2")
	var te *TransactionError
	if !errors.As(err, &te) || len(te.Errors) != 1 || te.Errors[0].Operation != pb.TxnOperation_CREATE {
		t.Fatalf("error: %v", err)
	}
	wantOps(t, r, "UPDATE b/1", "DELETE derived/x [DERIVED RECREATE]", "CREATE derived/x [DERIVED RECREATE FAILED]")
	wantState(t, s, "b/1", pb.ValueState_CONFIGURED)
	wantState(t, s, "derived/x", pb.ValueState_FAILED)
}

// What an update gives up is free for values that are created in the same transaction.
func TestUpdatesThatReleaseComeBeforeCreations(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	d := sb.descriptor("a", parts{prefix: "a/", retrieve: true})
	d.Releases = func(_ string, old, new text) bool { return len(new.Value) < len(old.Value) }
	if err := Register(s, d); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, "a/2=xy a/3=z")
	sb.take()
	mustCommit(t, s, "a/1=y a/2=x a/3=zz")
	wantCalls(t, sb, "UPDATE a/2", "CREATE a/1", "UPDATE a/3")

	// A revert takes it back from the created value first.
	mustCommit(t, s, "a/1 a/2=xy")
	sb.take()
	sb.failNext("UPDATE a/3", errBoom)
	if _, err := commit(t, s, "a/1=y a/2=x a/3=zzz", WithRevert()); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	wantCalls(t, sb, "UPDATE a/2", "CREATE a/1", "UPDATE a/3", "RETRIEVE a", "DELETE a/1", "UPDATE a/2")
	wantList(t, "southbound", sb.content(), []string{"a/2=xy", "a/3=zz"})
}
