// Package benchmark has what benchmarks of several packages share.
package benchmark

import (
	"syscall"
	"testing"
	"time"
)

// ProcessorTime returns the processor time that the process has used so far, in user and in system mode. Unlike the time that
// passes, it hardly depends on what else the machine does.
func ProcessorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
