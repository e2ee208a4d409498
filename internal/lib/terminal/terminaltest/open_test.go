package terminaltest

import (
	"fmt"
	"strings"
	"testing"
)

func TestShownOutput(t *testing.T) {
	end, shown := Open(t, 80)
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if _, err := end.WriteString(want.String()); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != want.String() {
		t.Errorf("%d bytes instead of %d", len(got), want.Len())
	}
}
