package kvscheduler

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func last(t testing.TB, s *Scheduler) *RecordedTxn {
	t.Helper()
	settle(t, s)
	h := s.History(time.Time{}, time.Time{})
	if len(h) == 0 {
		t.Fatal("empty history")
	}
	return h[len(h)-1]
}

func notify(t testing.TB, s *Scheduler, n ...Notification) *RecordedTxn {
	t.Helper()
	if err := s.PushSBNotification(n...); err != nil {
		t.Fatal(err)
	}
	return last(t, s)
}

func TestNotifications(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, sbOnly: true})
	sb.register(s, "b", parts{prefix: "b/", derive: true, retrieve: true, deps: map[string][]Dependency{
		"b/1": {on("a", "a/1")}, "b/1/item2": {on("a/item2", "a/1/item2")}}})
	mustCommit(t, s, "b/1=item1,item2", WithResync(FullResync))
	wantCalls(t, sb, "RETRIEVE b")
	wantState(t, s, "b/1", pb.ValueState_PENDING, "a")

	r := notify(t, s, Notification{"a/1", val("item1"), 10})
	wantOps(t, r, "CREATE a/1 [OBTAINED]", "CREATE b/1 [WAS-PENDING]", "CREATE b/1/item1 [DERIVED]",
		"CREATE b/1/item2 [DERIVED NOOP IS-PENDING]", "CREATE a/1/item1 [DERIVED OBTAINED]")
	if m, _ := s.Metadata("a", "a/1"); m != 10 {
		t.Fatalf("metadata %v", m)
	}
	r = notify(t, s, Notification{"a/1", val("item1,item2"), 11})
	wantOps(t, r, "UPDATE a/1 [OBTAINED]", "CREATE a/1/item2 [DERIVED OBTAINED]", "CREATE b/1/item2 [DERIVED WAS-PENDING]")
	if m, _ := s.Metadata("a", "a/1"); m != 11 {
		t.Fatalf("metadata %v", m)
	}
	wantState(t, s, "a/1", pb.ValueState_OBTAINED)
	wantCalls(t, sb, "CREATE b/1", "CREATE b/1/item1", "CREATE b/1/item2")

	r = notify(t, s, Notification{Key: "a/1"})
	wantOps(t, r, "DELETE a/1/item1 [DERIVED WAS-OBTAINED]", "DELETE b/1/item2 [DERIVED]",
		"DELETE a/1/item2 [DERIVED WAS-OBTAINED]", "DELETE b/1/item1 [DERIVED]", "DELETE b/1 [IS-PENDING]", "DELETE a/1 [WAS-OBTAINED]")
	wantState(t, s, "a/1", pb.ValueState_NONEXISTENT)
}

func TestNotificationsWithRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", derive: true, sbOnly: true})
		sb.register(s, "b", parts{prefix: "b/", derive: true, retrieve: true, deps: map[string][]Dependency{
			"b/1": {on("a", "a/1")}}})
		sb.register(s, "c", parts{prefix: "c/", retrieve: true, deps: map[string][]Dependency{
			"c/1": {{Label: "any a", AnyOf: AnyOf{KeyPrefixes: []string{"a/"}}}}}})
		mustCommit(t, s, "b/1=item1,item2", WithDefaultRetry())
		mustCommit(t, s, "c/1=x", WithRetry(Retry{Period: 3 * time.Second, MaxCount: 3, ExpBackoff: true}))
		sb.failNext("CREATE b/1/item2", errBoom)
		sb.failNext("CREATE c/1", errBoom)
		r := notify(t, s, Notification{"a/1", val(""), 1})
		wantState(t, s, "b/1", pb.ValueState_CONFIGURED)
		wantState(t, s, "b/1/item2", pb.ValueState_RETRYING)
		wantState(t, s, "c/1", pb.ValueState_RETRYING)
		wantCalls(t, sb, "CREATE b/1", "CREATE b/1/item1", "CREATE b/1/item2", "CREATE c/1", "RETRIEVE b", "RETRIEVE c")

		time.Sleep(1100 * time.Millisecond) // time of the synctest bubble
		retry := awaitTxn(t, s, r.SeqNum+1)
		wantOps(t, retry, "UPDATE b/1 [RETRY]", "CREATE b/1/item2 [DERIVED RETRY FIXED]")
		if retry.Type != RetryFailedOps || retry.RetryForTxn != r.SeqNum || retry.RetryAttempt != 1 {
			t.Fatalf("retry: %+v", retry)
		}
		time.Sleep(2 * time.Second)
		wantOps(t, awaitTxn(t, s, r.SeqNum+2), "CREATE c/1 [RETRY FIXED]")
		wantState(t, s, "c/1", pb.ValueState_CONFIGURED)
		_ = s.Close()
	})
}

// W2: each notified value is filtered by itself, and an empty push does nothing.
func TestW2NotificationsAreFilteredPerValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	mustCommit(t, s, "a/1=x")
	if err := s.PushSBNotification(); err != nil {
		t.Fatal(err)
	}
	r := notify(t, s, Notification{"a/1", val("y"), nil}, Notification{"a/2", val("y"), nil})
	wantOps(t, r, "CREATE a/2 [OBTAINED]")
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	// Deleting a value that was not requested does nothing.
	mustCommit(t, s, "a/2")
	wantState(t, s, "a/2", pb.ValueState_OBTAINED)
	if calls := sb.take(); !slices.Equal(calls, []string{"CREATE a/1"}) {
		t.Fatal(calls)
	}
}

// Notifications are fetched when their job starts, and can be queued even if the queue is full. The changes
// that arrived while other jobs ran are one transaction.
func TestNotificationsAreFetchedWhenTheirJobStarts(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	sb.register(s, "b", parts{prefix: "b/", sbOnly: true})
	started, release := sb.blockCall("CREATE a/1")
	_, _ = s.NewTransaction().Put("a/1", val("x")).Commit(t.Context(), WithoutBlocking())
	<-started
	for range queueCapacity {
		_, _ = s.NewTransaction().Put("a/2", val("x")).Commit(t.Context(), WithoutBlocking())
	}
	pending := []Notification{{Key: "b/1", Value: val("x")}}
	if err := s.PushSBNotifications(func() []Notification { return pending }); err != nil {
		t.Fatal(err)
	}
	pending = append(pending, Notification{Key: ""}, Notification{Key: "b/\xff"}, Notification{Key: "b/2", Value: val("x")}, Notification{Key: "b/1"})
	close(release)
	wantOps(t, last(t, s), "CREATE b/1 [OBTAINED]", "CREATE b/2 [OBTAINED]", "DELETE b/1 [WAS-OBTAINED]")
	wantState(t, s, "b/1", pb.ValueState_NONEXISTENT)
	wantState(t, s, "b/2", pb.ValueState_OBTAINED)

	before := len(s.History(time.Time{}, time.Time{}))
	if err := s.PushSBNotifications(func() []Notification { return nil }); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	if h := s.History(time.Time{}, time.Time{}); len(h) != before {
		t.Errorf("recorded an empty transaction: %v", h[len(h)-1])
	}
	_ = s.Close()
	if err := s.PushSBNotifications(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
