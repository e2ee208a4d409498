// Package await polls for results of other processes that provide no notification.
package await

import (
	"testing"
	"time"
)

// Patience is the timeout of That. It allows for a busy machine. TestMain may raise it for emulated
// machines.
var Patience = 90 * time.Second

const interval = 20 * time.Millisecond

// That polls check until it returns nil. After Patience it ends the test with the description and
// the last error.
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
