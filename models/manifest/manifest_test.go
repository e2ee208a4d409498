package manifest_test

import (
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/manifest"
	"google.golang.org/protobuf/proto"
)

const loopAndRoute = `
# The loopback that
key: config/vpp/v2/interfaces/loop1
value: {name: loop1, type: SOFTWARE_LOOPBACK, ip_addresses: [10.9.9.9/32]}
---
---
# the route goes through.
model: vpp.route
value:
  dstNetwork: 10.8.0.0/16
  next_hop_addr: 10.9.9.1
`

func TestDocumentsAreValues(t *testing.T) {
	values, err := manifest.Parse([]byte(loopAndRoute))
	if err != nil {
		t.Fatal(err)
	}
	want := []proto.Message{
		&vpp_interfaces.Interface{Name: "loop1", Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, IpAddresses: []string{"10.9.9.9/32"}},
		&vpp_l3.Route{DstNetwork: "10.8.0.0/16", NextHopAddr: "10.9.9.1"},
	}
	lines := []int{3, 8}
	if len(values) != len(want) {
		t.Fatalf("got %d values", len(values))
	}
	for i, v := range values {
		if v.Key != models.Key(want[i]) || !proto.Equal(v.Message, want[i]) || v.Line != lines[i] {
			t.Errorf("value %d is %+v", i, v)
		}
	}
}

func TestWrittenValuesAreReadBack(t *testing.T) {
	values, err := manifest.Parse([]byte(loopAndRoute))
	if err != nil {
		t.Fatal(err)
	}
	text, err := manifest.Format(values)
	if err != nil {
		t.Fatal(err)
	}
	again, err := manifest.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for i := range values {
		if again[i].Key != values[i].Key || !proto.Equal(again[i].Message, values[i].Message) {
			t.Errorf("%+v was read back as %+v", values[i], again[i])
		}
	}
}

func TestFilesWithoutDocuments(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n---\n", "null"} {
		if values, err := manifest.Parse([]byte(text)); err != nil || len(values) != 0 {
			t.Errorf("%q: %v, %v", text, values, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	const loop = "key: config/vpp/v2/interfaces/loop1\nvalue: {name: loop1, type: SOFTWARE_LOOPBACK}\n"
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":            {"key: [", "is no YAML: line 1: did not find"},
		"for kubectl":        {"apiVersion: v1\nkind: Service\n", "line 1: Service is an object of Kubernetes, for kubectl"},
		"a list":             {"- a\n", "line 1: a value is expected"},
		"neither key nor":    {"value: {name: a}", "key and model are missing"},
		"unknown model":      {"model: vpp.rout\nvalue: {}", `did you mean "vpp.route"?`},
		"model without name": {"model: vpp.interfaces\nvalue: {type: TAP}", "set the fields in config/vpp/v2/interfaces/{name}"},
		"unknown key":        {"key: config/vpp/v2/interface/a\nvalue: {}", `did you mean "config/vpp/v2/interfaces/"`},
		"other key":          {"key: config/vpp/v2/interfaces/a\nvalue: {name: b}", "make the fields that name it agree with the key"},
		"key and model":      {"model: vpp.route\n" + loop, "is not of model vpp.route"},
		"no value":           {"key: config/vpp/v2/interfaces/a", "value is missing"},
		"value is a list":    {"key: config/vpp/v2/interfaces/a\nvalue: []", "not a mapping of fields"},
		"fields in place":    {"model: vpp.interfaces\nname: a", `unknown field "name"`},
		"unknown field":      {"model: vpp.interfaces\nvalue: {name: a, mtuu: 1}", `did you mean "mtu"?`},
		"given twice":        {loop + "---\n" + loop, "line 4: duplicate value of config/vpp/v2/interfaces/loop1, also in line 1"},
		"all mistakes":       {loop + "---\n1\n---\n2\n", "line 6: a value is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := manifest.Parse([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || values != nil {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(loopAndRoute))
	f.Add([]byte("a: &a {b: *a}"))
	f.Add([]byte("<<: [1]\nkey: x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := manifest.Parse(data)
		if err != nil {
			return
		}
		text, err := manifest.Format(values)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := manifest.Parse(text); err != nil || len(again) != len(values) {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}
