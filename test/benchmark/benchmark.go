// Package benchmark contains helpers for benchmarks of several packages.
package benchmark

import (
	"syscall"
	"testing"
	"time"
)

// ProcessorTime returns the user and system time of the process. It depends less on the load of the
// machine than elapsed time.
func ProcessorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
