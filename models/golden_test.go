package models_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var update = flag.Bool("update", false, "rewrite all but the section json of the samples in testdata")

// A sample is a value in all its forms. testdata/<model>.txtar has samples of each model, which
// together set every field.
type sample struct {
	json   string // with the names of the .proto file
	key    string
	camel  string // with lowerCamelCase
	binary string // hexadecimal
}

func (s *sample) sections() []struct {
	name string
	text *string
} {
	return []struct {
		name string
		text *string
	}{{"json", &s.json}, {"key", &s.key}, {"camel", &s.camel}, {"binary", &s.binary}}
}

func readSamples(t testing.TB, file string) (samples []sample) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == "json" {
			samples = append(samples, sample{})
		}
		for _, section := range samples[len(samples)-1].sections() {
			if f.Name == section.name {
				*section.text = strings.TrimSpace(string(f.Data))
			}
		}
	}
	if len(samples) == 0 {
		t.Fatalf("%s has no samples", file)
	}
	return samples
}

func writeSamples(t *testing.T, file string, samples []sample) {
	t.Helper()
	archive := &txtar.Archive{Comment: []byte("Sample values in all their forms; only json is written by hand.\n")}
	for _, s := range samples {
		for _, section := range s.sections() {
			archive.Files = append(archive.Files, txtar.File{Name: section.name, Data: []byte(*section.text + "\n")})
		}
	}
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sampleOf returns all forms of a message.
func sampleOf(t *testing.T, msg proto.Message) sample {
	t.Helper()
	indent := func(data []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for digits := hex.EncodeToString(wire); digits != ""; {
		n := min(64, len(digits))
		lines.WriteString(digits[:n] + "\n")
		digits = digits[n:]
	}
	return sample{
		key:    models.Key(msg),
		json:   indent(models.Marshal(msg)),
		camel:  indent(protojson.Marshal(msg)),
		binary: strings.TrimSpace(lines.String()),
	}
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, m := range models.All() {
		file := filepath.Join("testdata", m.Name()+".txtar")
		all[file] = true
		t.Run(m.Name(), func(t *testing.T) { testSamples(t, m, file) })
	}
	for _, file := range files {
		if !all[file] {
			t.Errorf("%s belongs to no model", file)
		}
	}
}

func testSamples(t *testing.T, m *models.Model, file string) {
	samples := readSamples(t, file)
	set := make(map[protoreflect.FullName]bool)
	for i := range samples {
		s := &samples[i]
		msg := m.New()
		if err := protojson.Unmarshal([]byte(s.json), msg); err != nil {
			t.Fatal(err)
		}
		collectSet(t, msg, set)
		if *update {
			*s = sampleOf(t, msg)
			continue
		}
		testSample(t, m, *s, msg)
	}
	if *update {
		writeSamples(t, file, samples)
	}
	for _, field := range fieldsOf(m.New().ProtoReflect().Descriptor(), nil) {
		if !set[field] {
			t.Errorf("no sample sets %s", field)
		}
	}
}

func testSample(t *testing.T, m *models.Model, s sample, msg proto.Message) {
	t.Helper()
	if diff := cmp.Diff(s, sampleOf(t, msg), cmp.AllowUnexported(sample{})); diff != "" {
		t.Fatalf("golden (-), now (+):\n%s", diff)
	}
	wire, err := hex.DecodeString(strings.ReplaceAll(s.binary, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]byte{[]byte(s.json), []byte(s.camel), wire} {
		got, err := models.Unmarshal(s.key, form)
		if err != nil || !proto.Equal(got, msg) {
			t.Errorf("decoded from %q: %v, %v", form, got, err)
		}
	}

	// The key leads to the model and back.
	if found, ok := models.ForKey(s.key); !ok || found != m {
		t.Errorf("model of %s: %v", s.key, found)
	}
	if err := models.CheckKey(s.key); err != nil {
		t.Error(err)
	}
	if key, err := models.KeyOf(msg); err != nil || key != s.key {
		t.Errorf("key %q, %v; want %q", key, err, s.key)
	}
	if key := m.KeyPrefix() + executed(t, m, msg); key != s.key {
		t.Errorf("key by template %q, want %q", key, s.key)
	}

	// A newer client has more fields.
	newer := strings.TrimSuffix(s.json, "}") + `, "of_the_future": [{}]}`
	if s.json == "{}" {
		newer = `{"of_the_future": [{}]}`
	}
	for form, path := range map[string]string{newer: "of_the_future", string(wire) + "\xf8\x7f\x01": "2047"} {
		got, unknown, err := models.Decode(s.key, []byte(form))
		if err != nil || len(unknown) != 1 || unknown[0].Path != path {
			t.Errorf("decoded with unknown field: %v, %v", unknown, err)
			continue
		}
		got.ProtoReflect().SetUnknown(nil)
		if !proto.Equal(got, msg) {
			t.Errorf("decoded with unknown field: %v", got)
		}
	}
}

// executed returns the name that a ligato client gives the message.
func executed(t *testing.T, m *models.Model, msg proto.Message) string {
	t.Helper()
	functions := template.FuncMap{
		"protoip": func(addr string) string {
			if net.ParseIP(addr).To4() != nil {
				return "IPv4"
			}
			return "IPv6"
		},
		"ipnet": func(network string) map[string]any {
			_, n, err := net.ParseCIDR(network)
			if err != nil {
				return nil
			}
			ones, _ := n.Mask.Size()
			return map[string]any{"IP": n.IP.String(), "MaskSize": ones}
		},
	}
	tmpl, err := template.New("name").Funcs(functions).Option("missingkey=error").Parse(m.NameTemplate())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, msg); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// collectSet adds the set fields of the message and of nested messages.
func collectSet(t *testing.T, msg proto.Message, set map[protoreflect.FullName]bool) {
	t.Helper()
	err := protorange.Range(msg.ProtoReflect(), func(p protopath.Values) error {
		if step := p.Path.Index(-1); step.Kind() == protopath.FieldAccessStep {
			set[step.FieldDescriptor().FullName()] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func fieldsOf(message protoreflect.MessageDescriptor, fields []protoreflect.FullName) []protoreflect.FullName {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		fields = append(fields, field.FullName())
		if field.Message() != nil {
			fields = fieldsOf(field.Message(), fields)
		}
	}
	return fields
}
