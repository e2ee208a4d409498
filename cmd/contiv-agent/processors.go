package main

import (
	"os"
	"runtime"
)

// fewestProcessors is for how many processors the agent's goroutines are scheduled at least.
const fewestProcessors = 4

// spareProcessors lets a small node run more of the agent's goroutines at a time than it has processors, unless
// GOMAXPROCS or a limit of the container says how many. The agent spends much of its time in calls of the kernel, which
// Go counts as running for a while, and what waits for such a call to end are other goroutines of the same CNI ADD.
func spareProcessors() {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && n == runtime.NumCPU() && n < fewestProcessors {
		runtime.GOMAXPROCS(fewestProcessors)
	}
}
