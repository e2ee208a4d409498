package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// room is how much the agent may allocate between two garbage collections while it is small.
const room = 64 << 20

// roomyHeap makes garbage collections rarer while the heap is small, unless GOGC is set. By default, the
// heap of an agent with few pods is collected every few dozen CNI ADDs, and those that meet a collection
// are the slowest ones. A heap that is larger than room is collected as by default.
func roomyHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	adjustHeap(struct{}{})
}

// adjustHeap sets the pace of the next collection, and is called again after it.
func adjustHeap(struct{}) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(max(100, int(room*100/max(live[0].Value.Uint64(), 4<<20))))
	runtime.AddCleanup(new([16]byte), adjustHeap, struct{}{}) // unreachable: cleaned up by the next collection
}
