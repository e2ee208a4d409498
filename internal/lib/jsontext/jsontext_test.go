package jsontext_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/contiv/contiv/internal/lib/jsontext"
)

// FuzzReader: the Reader accepts and refuses the same input, and returns the same strings, as
// encoding/json.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e3,true,false,null,"x\n\u00e4ö"],"b":{}}`, `[]`, `""`, `"\ud800"`, `01`, `-`, `{"a":1,}`, `[1 2]`, `nul`, `"\x"`, `1 2`, "\"\x01\"", "\"\xff\"", ` { "a" : [ ] } `, `[`, `"`, `"sixteen letters."`, `"sixteen letter\n."`, `"eight…to"`, "\"12345678\x1f\"", "\"1234567\x80\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := jsontext.NewReader(data)
		raw := r.Raw()
		err := r.End()
		if (err == nil) != json.Valid(data) {
			t.Fatalf("%q: %v, but encoding/json accepts: %v", data, err, json.Valid(data))
		}
		if err == nil && !bytes.Equal(raw, bytes.TrimSpace(data)) {
			t.Fatalf("%q: raw is %q", data, raw)
		}
		var want string
		if json.Unmarshal(data, &want) != nil {
			return
		}
		for _, r := range []*jsontext.Reader{jsontext.NewReader(data), jsontext.NewTextReader(string(data))} {
			if got := r.String(); got != want || r.End() != nil {
				t.Fatalf("%q: %q, %v, expected %q", data, got, r.End(), want)
			}
		}
	})
}

// FuzzAppendString: encoding/json decodes the same string.
func FuzzAppendString(f *testing.F) {
	for _, text := range []string{"", "plain", "a\"b\\c\nd\te\x00\x1f", "ä→\u2028<&>", "\xff\xfe", "half \xe2\x86"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(jsontext.AppendString(nil, text), &got); err != nil || got != want {
			t.Fatalf("%q: %q, %v, expected %q", text, got, err, want)
		}
	})
}

func TestMembersAreReadInOrder(t *testing.T) {
	r := jsontext.NewReader([]byte(`{"a": 7, "skipped": {"b": [1]}, "texts": ["x", "y"], "yes": true, "none": null, "negative": -3}`))
	var a uint64
	var texts []string
	var yes bool
	var negative int64
	r.Object(func(name []byte) {
		switch string(name) {
		case "a":
			a = r.Uint()
		case "texts":
			texts = r.Strings()
		case "yes":
			yes = r.Bool()
		case "negative":
			negative = r.Int()
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil || a != 7 || len(texts) != 2 || !yes || negative != -3 {
		t.Fatal(err, a, texts, yes, negative)
	}
}

// FuzzAppendIndented: json.Indent writes the same.
func FuzzAppendIndented(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e3,true,null,"x\"y\\"],"b":{},"c":[],"d":[{}],"e":{"f":[[]]}}`, `[]`, `"a"`, ` [ 1 , { "a" : "b:" } ] `, `7`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want bytes.Buffer
		if json.Indent(&want, bytes.TrimSpace(data), "", "  ") != nil {
			return
		}
		if got := jsontext.AppendIndented(nil, data, func([]byte) {}); string(got) != want.String() {
			t.Fatalf("%q:\n%s\nexpected\n%s", data, got, want.String())
		}
	})
}
