package text

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/terminal/terminaltest"
)

func TestColours(t *testing.T) {
	terminal, _ := terminaltest.Open(t, 80)
	for _, c := range []struct {
		noColour, term string
		out            io.Writer
		want           bool
	}{
		{"", "xterm", terminal, true},
		{"1", "xterm", terminal, false},
		{"", "dumb", terminal, false},
		{"", "xterm", &strings.Builder{}, false},
	} {
		t.Setenv("NO_COLOR", c.noColour)
		t.Setenv("TERM", c.term)
		if got := Colours(c.out); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if Progress(&strings.Builder{}) != nil {
		t.Error("progress is shown without a terminal")
	}
}

// States are coloured and columns stay aligned; text from elsewhere cannot add colours.
func TestStatesAreColoured(t *testing.T) {
	print := func(colour bool) string {
		var out bytes.Buffer
		table := Printer{Writer: Plain(&out), Colour: colour}.Table("STATE", "FAILED", "WHY")
		table.Add("CONFIGURED", "node1", "")
		table.Add("FAILED", "\x1b[31mnode2", "broken: x")
		table.Print()
		return out.String()
	}
	want := "STATE       FAILED      WHY\n" +
		"\x1b[32mCONFIGURED\x1b[0m  node1\n" +
		"\x1b[31mFAILED\x1b[0m      \\x1b[31mnode2  \x1b[31mbroken\x1b[0m: x\n"
	if got := print(true); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := print(false); strings.Contains(got, "\x1b") {
		t.Errorf("without colours: %q", got)
	}
}
