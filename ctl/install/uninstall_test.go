package install

import (
	"io"
	"strings"
	"testing"
)

func TestOnlyAYesIsTakenForOne(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " Yes \n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false} {
		if got := confirmed(strings.NewReader(answer), io.Discard); got != want {
			t.Errorf("%q: %v", answer, got)
		}
	}
	if isTerminal(strings.NewReader("y")) {
		t.Error("text is taken for a terminal")
	}
}
