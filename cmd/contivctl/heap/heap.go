// Package heap has a program that ends soon collect no garbage until it uses 256 MB. It must be set before other packages are
// initialised, for that alone would bring the first two collections, a quarter of the start: hence an init function, which
// runs as soon as the few packages that this one imports are initialised.
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
	}, 400) // with the first collection
}
