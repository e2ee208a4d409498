package drift

import (
	"testing"
	"time"
)

func TestDamper(t *testing.T) {
	d := damper{}
	now := time.Now()
	keys := func(names ...string) map[string]struct{} {
		set := map[string]struct{}{}
		for _, name := range names {
			set[name] = struct{}{}
		}
		return set
	}
	for range dampAfter {
		if d.delay(keys("a"), now) != 0 {
			t.Fatal("the first reports are delayed")
		}
	}
	if d.delay(keys("a"), now) == 0 {
		t.Error("a key that is reported all the time is not delayed")
	}
	if d.delay(keys("a", "b"), now) != 0 {
		t.Error("a new key is delayed")
	}
	if d.delay(keys("a"), now.Add(2*dampPeriod)) != 0 {
		t.Error("a key is delayed forever")
	}
}
