package kvscheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func TestEmptyResync(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true})
	r := mustCommit(t, s, "", WithResync(FullResync))
	wantOps(t, r)
	wantCalls(t, sb, "RETRIEVE a")
	if r.SeqNum != 0 || r.Resync != FullResync {
		t.Fatalf("record: %+v", r)
	}
}

func TestResyncWithEmptySB(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, retrieve: true, deps: map[string][]Dependency{
		"a/2": {on("a1 item1", "a/1/item1")}, "a/1/item2": {on("a2 item1", "a/2/item1")}}})
	mustCommit(t, s, "a/1=item1,item2 a/2=item1", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE a", "CREATE a/1", "CREATE a/1/item1", "CREATE a/2", "CREATE a/2/item1", "CREATE a/1/item2")
	r := mustCommit(t, s, "a/1=item1,item2 a/2=item1", WithResync(FullResync))
	wantOps(t, r)
	wantCalls(t, sb, "RETRIEVE a")
	mustCommit(t, s, "", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE a", "DELETE a/1/item2", "DELETE a/2/item1", "DELETE a/2", "DELETE a/1/item1", "DELETE a/1")
}

// leftovers fills the southbound like an earlier process.
func leftovers(sb *southbound, values ...string) {
	for i := 0; i < len(values); i += 2 {
		sb.set(values[i], values[i+1])
		sb.foreign[values[i]] = FromNB
	}
}

func TestResyncWithNonEmptySB(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, retrieve: true, deps: map[string][]Dependency{
		"a/2/item2": {on("a9", "a/9")}}})
	sb.register(s, "z", parts{prefix: "z/", derive: true, retrieve: true, recreate: true})
	leftovers(sb, "a/1", "item1", "a/1/item1", "item1", "a/2", "item1", "a/2/item1", "item1", "z/3", "item1", "z/3/item1", "item1", "z/4", "")
	r := mustCommit(t, s, "a/1=item2 a/2=item1,item2 z/3=item1,item2", WithResync(FullResync))
	wantOps(t, r,
		"DELETE z/4 [DISCOVERED]",
		"DELETE z/3/item1 [DERIVED DISCOVERED]", "DELETE z/3 [RECREATE DISCOVERED]", "CREATE z/3 [RECREATE]",
		"CREATE z/3/item1 [DERIVED]", "CREATE z/3/item2 [DERIVED]",
		"DELETE a/1/item1 [DERIVED DISCOVERED]", "UPDATE a/1 [DISCOVERED]", "CREATE a/1/item2 [DERIVED]",
		"UPDATE a/2 [DISCOVERED]", "CREATE a/2/item2 [DERIVED NOOP IS-PENDING]")
}

// A restarted process adopts matching values without operations.
func TestRestartWithoutDifferencesExecutesNothing(t *testing.T) {
	sb := newSouthbound(t)
	values := "a/1=item1,item2 a/2=item1 b/1=x"
	p := parts{prefix: "a/", derive: true, retrieve: true, deps: map[string][]Dependency{"a/2": {on("b", "b/1")}, "a/1/item2": {on("a2", "a/2")}}}
	first := newScheduler(t)
	sb.register(first, "a", p)
	sb.register(first, "b", parts{prefix: "b/", retrieve: true})
	mustCommit(t, first, values, WithResync(FullResync))
	_ = first.Close()
	sb.take()
	for _, origin := range []Origin{FromNB, UnknownOrigin} {
		for _, key := range []string{"a/1", "a/2", "b/1"} {
			sb.foreign[key] = origin
		}
		s := newScheduler(t)
		sb.register(s, "a", p)
		sb.register(s, "b", parts{prefix: "b/", retrieve: true})
		wantOps(t, mustCommit(t, s, values, WithResync(FullResync)))
		wantCalls(t, sb, "RETRIEVE a", "RETRIEVE b")
		wantState(t, s, "a/1/item2", pb.ValueState_CONFIGURED)
	}
}

func TestResyncNotRemovingSBValues(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true})
	sb.register(s, "b", parts{prefix: "b/", retrieve: true, deps: map[string][]Dependency{"b/1": {on("a", "a/1")}}})
	sb.set("a/1", "foreign")
	sb.foreign["a/1"] = FromSB
	mustCommit(t, s, "b/1=x", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE a", "RETRIEVE b", "CREATE b/1")
	wantState(t, s, "a/1", pb.ValueState_OBTAINED)
	mustCommit(t, s, "", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE a", "RETRIEVE b", "DELETE b/1")
	for view, want := range map[View]int{SBView: 1, NBView: 0, CachedView: 1} {
		values, err := s.Dump(t.Context(), view, DumpFilter{})
		if err != nil || len(values) != want {
			t.Fatalf("view %v: %v %v", view, values, err)
		}
	}
}

func TestResyncReadsDescriptorsInTheirOrder(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "x1", parts{prefix: "a/", retrieve: true, after: []string{"x2"}})
	sb.register(s, "x2", parts{prefix: "b/", retrieve: true, after: []string{"x3", "not there"}})
	sb.register(s, "x3", parts{prefix: "c/", retrieve: true})
	mustCommit(t, s, "", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE x3", "RETRIEVE x2", "RETRIEVE x1")
}

func TestResyncWithRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", derive: true, retrieve: true})
		sb.failNext("CREATE a/1/item2", errBoom)
		_, err := commit(t, s, "a/1=item1,item2", WithResync(FullResync), WithRetry(Retry{Period: 3 * time.Second, MaxCount: 3}))
		if len(errorsOf(err)) != 1 {
			t.Fatal(err)
		}
		wantState(t, s, "a/1/item2", pb.ValueState_RETRYING)
		sb.take()
		time.Sleep(3100 * time.Millisecond)
		wantOps(t, awaitTxn(t, s, 1), "UPDATE a/1 [RETRY]", "CREATE a/1/item2 [DERIVED RETRY FIXED]")
		wantState(t, s, "a/1/item2", pb.ValueState_CONFIGURED)
		_ = s.Close()
	})
}

func TestRetriesEndAfterMaxCountWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", keyed: true})
		for range 4 {
			sb.failNext("CREATE a/1", errBoom)
		}
		start := time.Now()
		_, err := commit(t, s, "a/1=x", WithRetry(Retry{Period: time.Second, MaxCount: 3, ExpBackoff: true}))
		if err == nil {
			t.Fatal("no error")
		}
		time.Sleep(time.Minute)
		var at []time.Duration
		for _, r := range s.History(time.Time{}, time.Time{}) {
			at = append(at, r.Start.Sub(start).Round(100*time.Millisecond))
		}
		if len(at) != 4 || at[1] != time.Second || at[2] != 3*time.Second || at[3] != 7*time.Second {
			t.Fatalf("transactions at %v", at)
		}
		wantState(t, s, "a/1", pb.ValueState_FAILED)
		_ = s.Close()
	})
}

// A value that was changed since its failure is not retried.
func TestObsoleteRetryIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", keyed: true})
		sb.failNext("CREATE a/1", errBoom)
		_, _ = commit(t, s, "a/1=x", WithDefaultRetry())
		mustCommit(t, s, "a/1=y")
		sb.take()
		time.Sleep(time.Minute)
		wantCalls(t, sb)
		if n := len(s.History(time.Time{}, time.Time{})); n != 2 {
			t.Fatalf("%d transactions", n)
		}
		_ = s.Close()
	})
}

func TestKeyedDownstreamResyncReadsOnlyItsKeys(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, retrieve: true, derive: true})
	sb.register(s, "b", parts{prefix: "b/", keyed: true, depsOf: func(key, v string) []Dependency { return []Dependency{on("a", "a/1")} }})
	mustCommit(t, s, "a/1=i a/2=i b/1=x")
	sb.take()
	sb.unset("a/1")
	sb.unset("a/1/i")
	sb.unset("b/1")
	// b/1 depends on a/1, so it is deleted and created with it.
	r := mustCommit(t, s, "", WithResync(DownstreamResync), WithOnlyKeys("a/1/i"))
	wantCalls(t, sb, "RETRIEVE a/1", "DELETE b/1", "CREATE a/1", "CREATE b/1", "CREATE a/1/i")
	if r.Executed[1].PrevState != pb.ValueState_MISSING {
		t.Fatal(r)
	}
}

func TestConflictingOptionsAreRejected(t *testing.T) {
	s, _ := newScheduler(t), newSouthbound(t)
	for _, c := range []struct {
		values string
		opts   []TxnOption
		want   error
	}{
		{"", []TxnOption{WithResync(FullResync), WithRevert()}, ErrRevertWithResync},
		{"a/1=x", []TxnOption{WithResync(DownstreamResync)}, ErrDownstreamWithValues},
		{"a/1=x", []TxnOption{WithOnlyKeys("a/1")}, ErrKeysWithoutDownstream},
		{"=x", nil, ErrEmptyKey},
		{"\xff=x", nil, ErrInvalidKey},
	} {
		if _, err := commit(t, s, c.values, c.opts...); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.want, err)
		}
	}
}

// LastOperation is the last executed operation. Operations without effect do not count.
func TestLastOperationIgnoresNeedlessOperations(t *testing.T) {
	s := newScheduler(t)
	sb := newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	want := func(key string, op pb.TxnOperation) {
		t.Helper()
		if got := s.ValueStatus(key).Value.LastOperation; got != op {
			t.Errorf("last operation of %s is %v, want %v", key, got, op)
		}
	}
	must(t, s.NewTransaction().Put("a/1", val("x")).Put("b/1", val("x")))
	want("a/1", pb.TxnOperation_CREATE)
	want("b/1", pb.TxnOperation_UNDEFINED) // no descriptor
	must(t, s.NewTransaction(), WithResync(DownstreamResync))
	must(t, s.NewTransaction().Put("a/1", val("x")), WithRetry(Retry{}))
	want("a/1", pb.TxnOperation_CREATE)
	must(t, s.NewTransaction().Put("a/1", val("y")))
	want("a/1", pb.TxnOperation_UPDATE)
}

// Delete gets the requested value if the value was created only in part, for every attempt.
func TestDeletionOfAnUnreadableValueIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/"})
		sb.failNext("CREATE a/1", errBoom)
		_, _ = commit(t, s, "a/1=x")
		sb.failNext("DELETE a/1", errBoom)
		sb.failNext("DELETE a/1", errBoom)
		_, _ = commit(t, s, "a/1", WithRetry(Retry{Period: time.Second}))
		wantState(t, s, "a/1", pb.ValueState_RETRYING)
		time.Sleep(time.Minute)
		wantState(t, s, "a/1", pb.ValueState_NONEXISTENT)
		wantCalls(t, sb, "CREATE a/1", "DELETE a/1", "DELETE a/1", "DELETE a/1")
		_ = s.Close()
	})
}
