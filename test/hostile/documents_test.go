package hostile_test

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/manifest"
	"github.com/contiv/contiv/test/hostile"
	"sigs.k8s.io/yaml"
)

func TestDocumentsAreThoseOfTheLibrary(t *testing.T) {
	compare := func(key string, value []byte) {
		t.Helper()
		got, err := manifest.Append(nil, key, string(value))
		if err != nil {
			t.Fatal(err)
		}
		want, err := yaml.Marshal(map[string]string{"key": key})
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.JSONToYAML(fmt.Appendf(nil, `{"value":%s}`, value))
		if err != nil {
			t.Fatal(err)
		}
		if want = append(want, text...); string(got) != string(want) {
			t.Errorf("%s %s:\n%s\nexpected\n%s", key, value, got, want)
		}
	}
	for _, m := range models.All() {
		for _, sample := range hostile.Samples(t, "../..", m) {
			value, err := models.Marshal(sample)
			if err != nil {
				t.Fatal(err)
			}
			compare(m.KeyPrefix()+"x", value)
		}
	}
	for _, text := range []string{
		"", "y", "No", "ON", "null", "~", "1", "1.5", "1e3", "0x1f", "1_000", "12:30", "12:30:45", "02:fe:f8:48:74:72", "10.1.2.3", "10.1.2", "1.2.3.4.5", "10.1.2.0/24", "fd00::/8",
		"2001-01-01", "2001-01-01/x", "/", "-", "-x", "a-b", "a b", "a: b", "a #b", "e5", ".5", "..", "a.b", "<redacted>", "ä", "x\ny", "_x", "1/2", "a/b:c", "null/x", "Infinity", ".inf", "nan", "=", "<<", "0o7", "08",
	} {
		compare("k/"+text, fmt.Appendf(nil, `{"a":%q,"b":[%q],"c":{"d":%q}}`, text, text, text))
		compare(text, []byte(`{}`))
	}
	for _, value := range []string{
		`{"a":[]}`, `{"a":{}}`, `{"a":[{}]}`, `{"a":[{"b":[{"c":1},{"c":[1,2]}],"a":"x"}]}`, `{"z":1,"a":-1,"b":0.5,"c":12345678901,"d":true,"e":null}`, `{"a":[[1]]}`, `{"B":1,"a":2}`, `{"y":1}`, `{"a1":1,"a_b":2,"aa":3}`, `{"a":[null,true,"x"]}`,
		`{"a":[{"b":{"c":"x"}},{"b":{}}]}`,
	} {
		compare("k/x", []byte(value))
	}
}
