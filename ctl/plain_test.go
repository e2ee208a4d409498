package ctl

import (
	"bytes"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

func TestNothingThatIsShownMovesTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext ├─ é\n":        "plain\ttext ├─ é\n",
		"\x1b[2J\x1b]0;title\a":     `\x1b[2J\x1b]0;title\x07`,
		"a\x00b\rc\x7f":             `a\x00b\x0dc\x7f`,
		"\u009b31m\xff":             `\x9b31m\xff`,
		"\u202eright to left\u2066": `\u202eright to left\u2066`,
	} {
		var out bytes.Buffer
		if n, err := Plain(&out).Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %d, %v, %q", text, n, err, out.String())
		}
	}
	var table bytes.Buffer
	rows := printer{Writer: &table}.table("A", "B")
	rows.add("x\ny\tz", "1\nnode9  forged")
	rows.write()
	if text := table.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "\t") {
		t.Errorf("a text has rows or columns of its own:\n%s", text)
	}
	// A command line prints nothing else.
	var out, errOut bytes.Buffer
	c := Command("contivctl", &out, &errOut)
	c.SetArgs([]string{"no-such-\x1b[2J"})
	_ = c.Execute()
	c.PrintErr("\x1b[2J")
	if strings.Contains(out.String()+errOut.String(), "\x1b") {
		t.Errorf("printed %q %q", out.String(), errOut.String())
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	v := &vpp_interfaces.Interface{Name: "wg", Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: key, Port: 51820}}}
	if text := fieldsText(v); strings.Contains(text, key) || !strings.Contains(text, "<redacted>") || !strings.Contains(text, "51820") {
		t.Error(text)
	}
	if v.GetWireguard().GetPrivateKey() != key {
		t.Error("the value itself was changed")
	}
}
