// Package heap disables garbage collection in a short-lived program until its heap has 256 MB.
// Initialising other packages would already cause two collections, a quarter of the start time. So
// an init function sets the limit, right after the few packages imported here.
package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

func init() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(256 << 20)
	runtime.AddCleanup(new(string), func(percent int) {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	}, 400) // at the first collection
}
