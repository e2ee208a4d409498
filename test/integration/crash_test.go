package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/contiv/test/labtest"
)

// After a crash at any moment of ADD or DEL, the agent recovers its partial work, and a retry
// succeeds.
func TestAgentKilledDuringCNI(t *testing.T) {
	l := require(t)
	p := pod(t, l, "crash", "node1")
	peer := pod(t, l, "peer", "node2")
	if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
		t.Fatal(err)
	}
	without := deviceCount(t, l, "node1")

	crash := func(command string, after time.Duration) {
		t.Helper()
		result := make(chan error, 1)
		go func() {
			_, err := l.CNI(t.Context(), command, p.ID())
			result <- err
		}()
		timer := time.NewTimer(after) // the moment of the crash is the parameter under test
		select {
		case <-timer.C:
		case err := <-result:
			t.Logf("%s was faster than %s", command, after)
			result <- err
		}
		if err := l.KillAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		<-result
		if err := l.StartAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.CNI(t.Context(), command, p.ID()); err != nil {
			t.Fatalf("%s again: %v", command, err)
		}
	}
	for _, ms := range []int{3, 6, 8, 10, 12, 15, 20, 25, 30, 40} {
		after := time.Duration(ms) * time.Millisecond
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			crash("ADD", after)
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			wired, err := st.Pod(p.ID())
			if err != nil {
				t.Fatal(err)
			}
			if wired.Address, err = l.CNI(t.Context(), "ADD", p.ID()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.CNI(t.Context(), "CHECK", p.ID()); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			if err := ping(t, wired, peer); err != nil {
				t.Error(err)
			}
			labtest.RequireQuiet(t, l)
			crash("DEL", after)
			if left := deviceCount(t, l, "node1"); left != without {
				t.Errorf("node1 has %d devices, %d without the pod", left, without)
			}
			labtest.RequireQuiet(t, l)
		})
	}
}
