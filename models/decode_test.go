package models_test

import (
	"bytes"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func binary(t testing.TB, msg proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBinaryAndJSONAreDistinguished(t *testing.T) {
	long := strings.Repeat("n", '{') // its binary form begins with "\n{"
	tap := &vpp_interfaces.Interface{
		Name: "tap1", Type: vpp_interfaces.Interface_TAP, Mtu: 1400, IpAddresses: []string{"10.0.0.1/24"},
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
	for _, test := range []struct {
		name string
		msg  proto.Message
		data []byte
	}{
		{"JSON", &vpp_interfaces.Interface{Name: "a"}, []byte(`{"name":"a"}`)},
		{"JSON after white space", &vpp_interfaces.Interface{Name: "a"}, []byte("\n\t {\"name\":\"a\"}\n")},
		{"binary", tap, binary(t, tap)},
		{"binary that begins as JSON could", &vpp_interfaces.Interface{Name: long}, binary(t, &vpp_interfaces.Interface{Name: long})},
		{"binary, all fields at their defaults", &vpp_nat.Nat44Global{}, nil},
		{"JSON, all fields at their defaults", &vpp_nat.Nat44Global{}, []byte("{}")},
	} {
		got, err := models.Unmarshal(models.Key(test.msg), test.data)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if !proto.Equal(got, test.msg) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.msg)
		}
	}
}

func TestDecodingErrors(t *testing.T) {
	const key = "config/vpp/v2/interfaces/tap1"
	unknown := append(binary(t, &vpp_interfaces.Interface{Name: "tap1"}), 0xf8, 0x7f, 1) // field 2047
	for _, test := range []struct {
		key, data string
		want      []string
	}{
		{key, `{"name":"tap1","mtuu":1,"tap":{"versoin":2},"nonsense":0}`, []string{
			`unknown field "mtuu" (did you mean "mtu"?)`, `unknown field "tap.versoin" (did you mean "version"?)`, `unknown field "nonsense"`}},
		{key, `{"name":"tap1","type":"TAPP","mtuu":1}`, []string{`field "type" has no such value (did you mean "TAP"?)`, `unknown field "mtuu"`}},
		{key, `{"name":"tap1","rx_modes":[{},{"mode":"QUICK"}]}`, []string{`field "rx_modes[1].mode" must be one of UNKNOWN, POLLING`}},
		{key, `{"name":"tap1","name":"tap1","mtuu":1}`, []string{"duplicate field", `unknown field "mtuu"`}},
		{key, `{"name":"tap2","mtuu":1}`, []string{"agree with the key", `unknown field "mtuu"`}},
		{key, `{"name":"tap1","mtuu":1}}`, []string{"is no JSON"}},
		{key, `{"name":7,"mtu":"x","enabled":1,"ip_addresses":"10.0.0.1/8","tap":[],"rx_modes":[{"queue":-1},2],"rx_placements":null,"vrf":4294967296}`, []string{
			"is no JSON of ligato.vpp.interfaces.Interface", `field "name" must be a text in quotes`, `field "mtu" must be a whole number`,
			`field "enabled" must be true or false`, `field "ip_addresses" is a list: write its items in [ ]`, `field "tap" has fields of its own: write them in { }`,
			`field "rx_modes[0].queue" must be a whole number from 0`, `field "rx_modes[1]" has fields of its own`, `field "vrf" must be a whole number`}},
		{key, `{"name":"tap1","ip_addresses":["10.0.0.1/8",5]}`, []string{`field "ip_addresses[1]" must be a text in quotes`}},
		{key, "\n{\"name\":", []string{"is no JSON of ligato.vpp.interfaces.Interface: it is truncated after 9 bytes"}},
		{key, `{"name":"ta`, []string{"it is truncated after 11 bytes"}},
		{key, "{\n \"name\": tap1\n}", []string{"line 2, column 11: invalid character 'a' in literal true"}},
		{key, string(unknown), []string{`unknown field "2047"`}},
		{key, "name: tap1", []string{"is no JSON object, which begins with {, nor binary protobuf"}},
		{key, `["tap1"]`, []string{"is no JSON object"}},
		{key, "\xff\xff\xff", []string{"is no binary protobuf"}},
		{key, "", []string{"describes", "agree with the key"}},
		{"config/vpp/v2/interface/tap1", "{}", []string{`did you mean "config/vpp/v2/interfaces/"?`}},
		{"config/vpp/l2/v2/bridgedomain/bd1", "{}", []string{`did you mean "config/vpp/l2/v2/bridge-domain/"?`}},
		{"confg/vpp/v2/route/vrf/0/dst/10.0.0.0/8", "{}", []string{`did you mean "config/vpp/v2/route/"?`}},
		{"something/else", "{}", []string{"`contivctl models`"}},
	} {
		_, err := models.Unmarshal(test.key, []byte(test.data))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: got %v, want an error with %q", test.key, test.data, err, want)
			}
		}
	}
}

func TestUnknownFieldsAreReportedAndTheRestIsUsable(t *testing.T) {
	const key = "config/vpp/v2/interfaces/tap1"
	want := &vpp_interfaces.Interface{
		Name: "tap1", Mtu: 9000, RxModes: []*vpp_interfaces.Interface_RxMode{{Queue: 1}, {Queue: 2}},
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
	text := `{"name":"tap1", "mtu":9000, "newer":{"a":[1]}, "rxModes":[{"queue":1},{"queue":2,"fast":true}], "tap":{"version":2,"versoin":3}}`
	got, unknown, err := models.Decode(key, []byte(text))
	if err != nil || !proto.Equal(got, want) {
		t.Fatalf("got %v, %v", got, err)
	}
	if diff := cmp.Diff([]models.UnknownField{{Path: "newer"}, {Path: "rxModes[1].fast"}, {Path: "tap.versoin", Similar: "version"}}, unknown); diff != "" {
		t.Error(diff)
	}

	// Binary values keep them in the message.
	want.RxModes[1].ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1})
	want.GetTap().ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1, 0xf8, 0x7f, 2})
	got, unknown, err = models.Decode(key, binary(t, want))
	if err != nil || !proto.Equal(got, want) {
		t.Fatalf("got %v, %v", got, err)
	}
	if diff := cmp.Diff([]models.UnknownField{{Path: "rx_modes[1].2047"}, {Path: "tap.2047"}}, unknown); diff != "" {
		t.Error(diff)
	}
}

// A decoded value belongs to its key, and its encodings are equivalent.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"name":"tap1","type":"TAP","tap":{"version":2}}`))
	f.Add(binary(f, &vpp_interfaces.Interface{Name: "tap1", Mtu: 9000, Vrf: 3}))
	f.Add([]byte("\n{"))
	f.Add([]byte(`{"name":"tap1","newer":[{"a":null}],"rx_modes":[{"fast":1,"mode":"POLLING"}]}`))
	f.Add([]byte(strings.Repeat(`{"tap":`, 100)))
	const key = "config/vpp/v2/interfaces/tap1"
	f.Fuzz(func(t *testing.T, data []byte) {
		msg, unknown, err := models.Decode(key, data)
		if strict, strictErr := models.Unmarshal(key, data); (strictErr == nil) != (err == nil && len(unknown) == 0) {
			t.Fatalf("strict: %v %v; else: %v %v", strict, strictErr, unknown, err)
		}
		if err != nil {
			return
		}
		if len(unknown) > 0 {
			discardUnknown(msg.ProtoReflect())
		}
		if models.Key(msg) != key {
			t.Fatalf("value of %s", models.Key(msg))
		}
		text, err := models.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range [][]byte{text, binary(t, msg), bytes.Join([][]byte{[]byte("\n"), text}, nil)} {
			again, err := models.Unmarshal(key, form)
			if err != nil || !proto.Equal(again, msg) {
				t.Fatalf("%q: %v %v", form, again, err)
			}
		}
	})
}

// discardUnknown removes unknown fields, which have no JSON form.
func discardUnknown(m protoreflect.Message) {
	_ = protorange.Range(m, func(p protopath.Values) error {
		if inner, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
			inner.SetUnknown(nil)
		}
		return nil
	})
}
