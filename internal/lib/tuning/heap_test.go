package tuning

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/contiv/contiv/test/await"
)

// Only a small heap may more than double before it is collected.
func TestSmallHeapIsCollectedRarely(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	CollectRarely()
	collected := func(rarely bool) {
		t.Helper()
		await.That(t, fmt.Sprintf("collected rarely: %t", rarely), func() error {
			runtime.GC()
			percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
			metrics.Read(percent)
			if got := percent[0].Value.Uint64(); (got > 100) != rarely {
				return fmt.Errorf("the heap may grow by %d %%", got)
			}
			return nil
		})
	}
	collected(true)
	large := make([]byte, 2*minHeadroom)
	collected(false)
	runtime.KeepAlive(large)
	large = nil
	collected(true)
}
