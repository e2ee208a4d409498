package ctl

import (
	"testing"
)

func TestFieldsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:              "",
		`{"name":"tap1"}`: "name=tap1",
		`{"enabled":true,"mtu":1450,"tap":{"version":2,"to":{}},"ip_addresses":["10.1.1.1/32","fd00::1/128"],"none":[]}`: "enabled=true  mtu=1450  tap.version=2  ip_addresses=10.1.1.1/32,fd00::1/128  none=",
		`{"rules":[{"port":80},{"port":81,"to":["a"]}]}`:                                                                 "rules[0].port=80  rules[1].port=81  rules[1].to=a",
		`{"mixed":[1,{"a":2}]}`: "mixed[0]=1  mixed[1].a=2",
		"{\n  \"name\": \"a \\\"b\\\" \\u00e9\",\n  \"rate\": -1.5e3\n}": `name=a "b" é  rate=-1.5e3`,
		`<ligato.X: no such field>`:                                      "value=<ligato.X: no such field>",
		`{"name":`:                                                       `value={"name":`,
		`{"name":"a`:                                                     `value={"name":"a`,
		`{"a":1}}`:                                                       `value={"a":1}}`,
		`[[`:                                                             `value=[[`,
		`{{`:                                                             `value={{`,
	} {
		if got := inLine("", fieldsOfJSON(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
