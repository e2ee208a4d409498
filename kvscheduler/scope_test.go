package kvscheduler

import (
	"math/rand/v2"
	"testing"
)

func TestSmallMapMatchesBuiltinMap(t *testing.T) {
	var f smallMap[int]
	want := map[string]int{}
	keys := []string{"", "a", "b", "c"}
	for step := range 10_000 {
		key := keys[rand.IntN(len(keys))]
		switch rand.IntN(10) {
		case 0:
			f.clear()
			clear(want)
		case 1, 2, 3, 4:
			f.delete(key)
			delete(want, key)
		default:
			f.set(key, step)
			want[key] = step
		}
		for _, key := range keys {
			if got := f.get(key); got != want[key] {
				t.Fatalf("step %d: %q is %d, want %d", step, key, got, want[key])
			}
		}
	}
}
