// Package tuning adjusts the Go runtime for a program with a small heap on a small machine.
package tuning

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// minHeadroom is how much a small agent may allocate between two garbage collections, in bytes.
const minHeadroom = 64 << 20

// CollectRarely makes garbage collections rarer while the heap is small, unless GOGC is set. By
// default, an agent with few pods collects every few dozen CNI ADDs, and the ADDs that meet a
// collection are the slowest. A heap larger than minHeadroom is collected as by default.
func CollectRarely() {
	if os.Getenv("GOGC") != "" {
		return
	}
	adjustHeap(struct{}{})
}

// adjustHeap sets the pace of the next collection. The runtime calls it after each collection.
func adjustHeap(struct{}) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(max(100, int(minHeadroom*100/max(live[0].Value.Uint64(), 4<<20))))
	runtime.AddCleanup(new([16]byte), adjustHeap, struct{}{}) // unreachable, so the next collection runs the cleanup
}
