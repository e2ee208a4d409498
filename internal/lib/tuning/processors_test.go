package tuning

import (
	"runtime"
	"strconv"
	"testing"
)

func TestSmallNodeHasSpareProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	all := runtime.NumCPU()
	for _, c := range []struct {
		name             string
		set              string // GOMAXPROCS
		processors, want int
	}{
		{"as many as the node has", "", all, max(all, fewestProcessors)},
		{"fewer, by a limit", "", all - 1, all - 1},
		{"as many as the node has, by the administrator", strconv.Itoa(all), all, all},
	} {
		if c.processors == 0 {
			continue // a node with one processor
		}
		t.Run(c.name, func(t *testing.T) {
			runtime.GOMAXPROCS(c.processors)
			t.Setenv("GOMAXPROCS", c.set)
			RaiseProcessors()
			if got := runtime.GOMAXPROCS(0); got != c.want {
				t.Errorf("goroutines run on %d processors, want %d", got, c.want)
			}
		})
	}
}
