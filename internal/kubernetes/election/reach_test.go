package election_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
)

var errCutOff = errors.New("the API server does not respond")

func two(t *testing.T, resignAfter time.Duration) (s *etcd.Store, leader, standby *instance) {
	t.Helper()
	s = etcdtest.Start(t).Store()
	leader, standby = startResigning(t, s, "a", ttl, resignAfter), startResigning(t, s, "b", ttl, resignAfter)
	leader.source <- pods(3, 1)
	awaitRole(t, leader, ksr.Leader)
	standby.source <- pods(3, 1)
	awaitRole(t, standby, ksr.Standby)
	return s, leader, standby
}

func wantCandidates(t *testing.T, s *etcd.Store, want string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		names, _ := candidates(t, s)
		got := strings.Join(names, " ")
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("candidates: %q, want %q", got, want)
		}
	}
}

func TestLeaderThatIsCutOffLeavesToOneThatIsNot(t *testing.T) {
	s, a, b := two(t, resignAfter)
	a.reach.Note(errCutOff)
	awaitRole(t, b, ksr.Leader)
	wantCandidates(t, s, "b")
	if status := a.Status(); status.Role != ksr.Candidate || !strings.Contains(status.Error, errCutOff.Error()) || readiness(a) != 200 {
		t.Errorf("status of the former leader: %+v", status)
	}
	a.reach.Note(nil)
	awaitRole(t, a, ksr.Standby)
	wantCandidates(t, s, "b a")
}

// Without the API server, all instances are disconnected. The leader stays, and repairs a store
// that lost data.
func TestLeaderStaysWhenEverybodyIsCutOff(t *testing.T) {
	s, a, b := two(t, resignAfter)
	b.reach.Note(errCutOff)
	wantCandidates(t, s, "a")
	_, before := candidates(t, s)
	a.reach.Note(errCutOff)
	time.Sleep(10 * resignAfter)
	if names, after := candidates(t, s); len(names) != 1 || after[0] != before[0] {
		t.Errorf("candidates: %v", names)
	}
	a.stop()
	awaitRole(t, b, ksr.Leader)
}

func TestLeaderThatReconnectsInTimeStays(t *testing.T) {
	const resignAfter = time.Second // longer than any suspension of the test
	s, a, _ := two(t, resignAfter)
	_, before := candidates(t, s)
	for range 20 {
		a.reach.Note(errCutOff)
		a.reach.Note(nil)
	}
	time.Sleep(resignAfter + 200*time.Millisecond)
	if _, after := candidates(t, s); len(after) != 2 || after[0] != before[0] {
		t.Error("the leader has changed")
	}
}
