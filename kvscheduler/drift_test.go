package kvscheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

func TestDriftIsRepairedAndRecordedWithReason(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true})
	mustCommit(t, s, "a/1=x a/2=x")
	sb.take()
	sb.unset("a/1")
	if err := s.ReportDrift("link deleted", "a/1", "a/9"); err != nil {
		t.Fatal(err)
	}
	r := last(t, s)
	wantOps(t, r, "CREATE a/1 [WAS-MISSING]")
	if r.Description != "drift: link deleted" || r.Resync != DownstreamResync {
		t.Fatal(r)
	}
	wantCalls(t, sb, "RETRIEVE a/1", "CREATE a/1")
}

func TestDriftWithoutKeysReadsEverything(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true})
	sb.register(s, "b", parts{prefix: "b/", retrieve: true})
	mustCommit(t, s, "a/1=x a/2=x b/1=x")
	sb.take()
	sb.unset("a/1")
	sb.unset("b/1")
	sb.set("a/9", "x")
	sb.foreign["a/9"] = FromNB
	_ = s.ReportDrift("link deleted", "a/1")
	if err := s.ReportDrift("restarted"); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	var resyncs []string
	for _, r := range s.History(time.Time{}, time.Time{})[1:] {
		resyncs = append(resyncs, r.Description)
		if r.Resync != DownstreamResync {
			t.Error(r)
		}
	}
	if all := strings.Join(resyncs, " "); !strings.Contains(all, "restarted") {
		t.Errorf("recorded %q without the reason", resyncs)
	}
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		wantState(t, s, key, pb.ValueState_CONFIGURED)
	}
	if slices.ContainsFunc(sb.content(), func(line string) bool { return strings.HasPrefix(line, "a/9") }) {
		t.Error("the unwanted value a/9 still exists")
	}
	sb.take()
	_ = s.ReportDrift("restarted")
	settle(t, s)
	wantCalls(t, sb, "RETRIEVE a", "RETRIEVE b")
}

func TestRestoringEndsAfterEverythingIsRead(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", retrieve: true})
	mustCommit(t, s, "a/1=x")
	sb.unset("a/1")
	started, release := sb.blockCall("RETRIEVE a")
	restoring := func(when, want string) {
		t.Helper()
		if got := s.Restoring(); got != want {
			t.Errorf("%s: restoring %q, want %q", when, got, want)
		}
	}
	restoring("at first", "")
	_ = s.ReportDrift("link deleted", "a/9")
	settle(t, s)
	restoring("after a report of keys", "")
	_ = s.ReportDrift("restarted")
	<-started
	restoring("while it is read", "restarted")
	_ = s.ReportDrift("restarted again")
	release <- struct{}{}
	<-started
	restoring("while it is read again", "restarted again")
	release <- struct{}{}
	settle(t, s)
	restoring("at the end", "")

	history := s.History(time.Time{}, time.Time{})
	wantOps(t, history[1], "CREATE a/1 [WAS-MISSING]")
	if len(history) != 3 || history[2].Description != "drift: restarted again" || len(history[2].Executed) > 0 {
		t.Errorf("recorded %v, want also the transaction without operations", history)
	}
}

func TestFailedRestorationIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sb := newScheduler(t), newSouthbound(t)
		sb.register(s, "a", parts{prefix: "a/", retrieve: true})
		mustCommit(t, s, "a/1=x")
		sb.unset("a/1")
		sb.failNext("CREATE a/1", errors.New("busy"))
		_ = s.ReportDrift("restarted")
		settle(t, s)
		wantState(t, s, "a/1", pb.ValueState_RETRYING)
		time.Sleep(DefaultRetry.Period + time.Millisecond)
		settle(t, s)
		wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	})
}

func TestDriftReportWithoutDifferenceIsNotRecorded(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true})
	mustCommit(t, s, "a/1=x")
	sb.take()
	_ = s.ReportDrift("suspicion", "a/1")
	settle(t, s)
	wantCalls(t, sb, "RETRIEVE a/1")
	if n := len(s.History(time.Time{}, time.Time{})); n != 1 {
		t.Fatalf("%d transactions", n)
	}
	if r := mustCommit(t, s, "a/2=x"); r.SeqNum != 1 {
		t.Fatalf("sequence number %d", r.SeqNum)
	}
}

func TestDriftReportsAreCoalesced(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true})
	mustCommit(t, s, "a/1=x a/2=x")
	started, release := sb.blockCall("CREATE a/3")
	_, _ = s.NewTransaction().Put("a/3", val("x")).Commit(context.Background(), WithoutBlocking())
	<-started
	sb.take()
	for range 100 {
		_ = s.ReportDrift("flapping", "a/1", "a/2")
	}
	close(release)
	settle(t, s)
	wantCalls(t, sb, "RETRIEVE a/1 a/2")
}

func TestVerifyReportsDifferencesAndChangesNothing(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true, derive: true, depsOf: func(key, _ string) []Dependency {
		if key == "a/4" {
			return []Dependency{on("nothing", "x")}
		}
		return nil
	}})
	mustCommit(t, s, "a/1=i a/2=i a/3=i a/4=i")
	sb.set("a/2", "j")
	sb.unset("a/3")
	sb.take()
	diffs, err := s.Verify(t.Context(), "a/1/i", "a/2", "a/3", "a/4", "a/5")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range diffs {
		line := d.Key + " " + d.State.String()
		if d.Want != nil {
			line += " wanted"
		}
		if d.Have != nil {
			line += " exists"
		}
		got = append(got, line)
	}
	wantList(t, "differences", got, []string{
		"a/3 CONFIGURED wanted", "a/3/i CONFIGURED wanted", "a/4 PENDING wanted", "a/5 NONEXISTENT"})
	wantCalls(t, sb, "RETRIEVE a/1 a/2 a/3 a/4")
	wantState(t, s, "a/3", pb.ValueState_CONFIGURED)
}
