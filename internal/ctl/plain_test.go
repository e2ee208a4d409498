package ctl

import (
	"bytes"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

func TestErrorsDoNotMoveTheTerminal(t *testing.T) {
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
