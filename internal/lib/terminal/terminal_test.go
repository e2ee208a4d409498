package terminal

import (
	"strings"
	"testing"
)

func TestOnlyAYesIsTakenForOne(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, " Yes \n": true, " YES \n": true, "yes": true,
		"": false, "\n": false, "n\n": false, "yellow\n": false, "yesterday\n": false,
	} {
		var asked strings.Builder
		if got := Confirmed(strings.NewReader(answer), &asked, "Remove all this?"); got != want || asked.String() != "Remove all this? [y/N] " {
			t.Errorf("%q: %v, asked %q", answer, got, asked.String())
		}
	}
}

func TestTextIsNoTerminal(t *testing.T) {
	if Is(strings.NewReader("y")) {
		t.Error("text is taken for a terminal")
	}
}
