// Package await polls for what other processes do in their own time and tell only those
// who ask. What can be waited for is waited for instead.
package await

import (
	"testing"
	"time"
)

// Patience is how long That waits; what is awaited happens much faster, unless the machine
// is busy. A TestMain may raise it, for machines that are emulated.
var Patience = 90 * time.Second

const interval = 20 * time.Millisecond

// That waits until check returns nil. It ends the test if that takes longer than Patience,
// with what was awaited and the last error.
func That(t testing.TB, what string, check func() error) {
	t.Helper()
	within(t, Patience, what, check)
}

func within(t testing.TB, patience time.Duration, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(interval) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}
