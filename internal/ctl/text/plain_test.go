package text

import (
	"bytes"
	"strings"
	"testing"
)

func TestNothingThatIsShownMovesTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext ├─ é\n":        "plain\ttext ├─ é\n",
		"\x1b[2J\x1b]0;title\a":     `\x1b[2J\x1b]0;title\x07`,
		"a\x00b\rc\x7f":             `a\x00b\x0dc\x7f`,
		"\u009b31m\xff":             `\x9b31m\xff`,
		"a\u2028b\u2029":            `a\u2028b\u2029`,
		"\u202eright to left\u2066": `\u202eright to left\u2066`,
	} {
		var out bytes.Buffer
		if n, err := Plain(&out).Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %d, %v, %q", text, n, err, out.String())
		}
	}
	for at := range 20 {
		text := strings.Repeat("ordinary\n", 3)[:at] + "\x1b" + strings.Repeat("ordinary\n", 3)
		if got := indexCommand([]byte(text)); got != at {
			t.Errorf("%q: %d", text, got)
		}
	}
	var table bytes.Buffer
	rows := Printer{Writer: &table}.Table("A", "B")
	rows.Add("x\ny\tz", "1\nnode9  forged")
	rows.Print()
	if text := table.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "\t") {
		t.Errorf("a text has rows or columns of its own:\n%s", text)
	}
}
