package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// TestAddPod kills the agent at each moment of an ADD. The next ADD shows which step it had
// reached; wiring a pod takes less than ten milliseconds.
func TestAddPod(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ap")
	victim := s.pod(t, "victim", "node1")
	unwire(t, s, victim.ID())
	f := begin(t, s, "Agent killed at each step of ADD", "kubelet adds a pod, and 0 to 20 ms later the agent gets SIGKILL. It starts again, and kubelet repeats the ADD.")
	f.row.Until = "until the pod was wired, at most, after the start"
	interrupted := 0
	for after := time.Duration(0); after <= 20*time.Millisecond; after += time.Millisecond {
		result := make(chan error, 1)
		go func() {
			_, err := s.CNI(t.Context(), "ADD", victim.ID())
			result <- err
		}()
		time.Sleep(after) // the moment of the kill is the parameter under test
		if err := killProcess(s.process(t, "node1")); err != nil {
			t.Fatal(err)
		}
		err := <-result
		if err != nil {
			interrupted++
		}
		s.kill(t, "node1")
		f.heal()
		s.start(t, "node1")
		wired := victim
		if wired.Address, err = s.CNI(t.Context(), "ADD", victim.ID()); err != nil {
			t.Fatalf("killed after %v: ADD again: %v", after, err)
		}
		f.row.Healed = max(f.row.Healed, time.Since(f.healing))
		reached(t, s.far, wired)
		if _, err := s.CNI(t.Context(), "CHECK", victim.ID()); err != nil {
			t.Errorf("killed after %v: CHECK: %v", after, err)
		}
		await.That(t, fmt.Sprintf("killed after %v: all is well", after), func() error { return s.settled(t, "node1") })
		unwire(t, s, victim.ID())
	}
	if interrupted < 3 {
		t.Errorf("only %d ADDs could be interrupted", interrupted)
	}
	f.row.Kept = fmt.Sprintf("%d of the ADDs failed, and the others were complete. Each repeated ADD succeeded, and DEL left nothing behind.", interrupted)
	f.end()
}

func reached(t *testing.T, from, to lab.Pod) {
	t.Helper()
	stream, err := lab.StartStream(from.Endpoint(), to.Endpoint(), interval)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if err := stream.Await(ctx, 3); err != nil {
		t.Error(err)
	}
}

func unwire(t *testing.T, s *site, pod string) {
	t.Helper()
	if _, err := s.CNI(t.Context(), "DEL", pod); err != nil {
		t.Fatal(err)
	}
}
