package text

import (
	"fmt"
	"strings"
	"testing"
)

// Sentences are wrapped on a terminal; elsewhere they stay on one line, for grep.
func TestMessagesFitTheTerminal(t *testing.T) {
	const message = "contivctl: no value with the key \"nope\", and none with a key that contains it: `contivctl values` lists the keys\n  " +
		"config/linux/interfaces/v2/interface/linux-tap-0123456789abcdef is one of which a terminal breaks the rest\nshort\n"
	for columns, want := range map[string]string{
		"": message,
		"60": "contivctl: no value with the key \"nope\", and none with a\n  key that contains it: `contivctl values` lists the keys\n" +
			"  config/linux/interfaces/v2/interface/linux-tap-0123456789abcdef\n    is one of which a terminal breaks the rest\nshort\n",
	} {
		t.Setenv("COLUMNS", columns)
		var out, printed strings.Builder
		fmt.Fprint(Messages(&out), message)
		width, must := Width(&printed)
		Printer{Writer: &printed, Width: width, Terminal: must, Full: true}.Printf("%s", message)
		for _, got := range []string{out.String(), printed.String()} {
			if got != want {
				t.Errorf("COLUMNS=%s:\n%s\nwant\n%s", columns, got, want)
			}
		}
	}
}

func TestReflow(t *testing.T) {
	got := Reflow("One sentence that\ngoes on for longer than a line has room.\n\n  example --flag VALUE --another VALUE --further VALUE\n\nThe end.", 40)
	want := "One sentence that goes on for longer\nthan a line has room.\n\n  example --flag VALUE --another VALUE --further VALUE\n\nThe end."
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestColumn(t *testing.T) {
	if got, want := Column("Configure the vswitch of a node: get, apply, delete values", 45, 5), "Configure the vswitch of a node: get,\n     apply, delete values"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
