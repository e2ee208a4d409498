package await

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// failing records the failure of a test.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()                           {}
func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...); panic(f) }

func TestWithin(t *testing.T) {
	calls := 0
	That(t, "the third call", func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}

	f := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		within(f, time.Nanosecond, "the impossible", func() error { return errors.New("never") })
	}()
	if want := "not within 1ns: the impossible: never"; f.said != want {
		t.Errorf("it said %q, want %q", f.said, want)
	}
}
