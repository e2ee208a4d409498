package tuning

import (
	"os"
	"runtime"
)

// fewestProcessors is the minimum of GOMAXPROCS.
const fewestProcessors = 4

// RaiseProcessors raises GOMAXPROCS on a small node, unless the environment or a container limit
// sets it. The agent spends much time in system calls, which Go counts as running for a while, and
// other goroutines of the same CNI ADD wait for that.
func RaiseProcessors() {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && n == runtime.NumCPU() && n < fewestProcessors {
		runtime.GOMAXPROCS(fewestProcessors)
	}
}
