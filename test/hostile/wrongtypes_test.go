package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/manifest"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// secretField is a field that holds a secret, in its message and as a frame of JSON around %s.
type secretField struct {
	protoreflect.FieldDescriptor
	frame string
}

func secretFields(d protoreflect.MessageDescriptor, before, after string, depth int) (found []secretField) {
	if depth == 0 {
		return nil
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		name := string(fd.Name())
		opening, closing := fmt.Sprintf(`%s{%q:`, before, name), "}"+after
		switch {
		case fd.IsMap():
		case fd.Message() != nil && fd.IsList():
			found = append(found, secretFields(fd.Message(), opening+"[", "]"+closing, depth-1)...)
		case fd.Message() != nil:
			found = append(found, secretFields(fd.Message(), opening, closing, depth-1)...)
		case strings.Contains(name, "public"):
		case strings.HasSuffix(name, "_key"), strings.HasSuffix(name, "_salt"), strings.Contains(name, "secret"), strings.Contains(name, "password"):
			found = append(found, secretField{fd, opening + "%s" + closing})
		}
	}
	return found
}

// No entry quotes a secret of a wrong type in its error, warnings or answer.
func TestSecretsOfWrongTypesAreNotShown(t *testing.T) {
	const secret = "31337424242"
	s := kvscheduler.New(kvscheduler.Options{Logger: quiet})
	defer s.Close()
	fields := 0
	for _, m := range models.All() {
		typeName := m.New().ProtoReflect().Descriptor().FullName()
		for _, f := range secretFields(m.New().ProtoReflect().Descriptor(), "", "", 5) {
			fields++
			hidden := func(entry, value, text string) {
				t.Helper()
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s: %s: %s", m.Name(), fmt.Sprintf(f.frame, value), entry, text)
				}
			}
			values := []string{secret, secret + "5", "-" + secret + ".5", `{"` + secret + `":1}`, `{"a":"` + secret + `"}`, `["` + secret + `"]`, `[` + secret + `]`,
				`"` + secret + `\ud800"`, "\"" + secret + "\xff\"", `"` + secret + `\x"`, "tru" + secret, `"` + secret, `"` + secret + `"x`}
			if f.Kind() != protoreflect.StringKind {
				values = append(values, `"`+secret+`"`, `"x`+secret+`"`)
			}
			for _, value := range values {
				text := fmt.Sprintf(f.frame, value)
				msg, unknown, err := models.Decode(m.Key(m.New()), []byte(text))
				if err == nil && msg != nil {
					err = controller.ValidateDirectives(m.Key(m.New()), msg)
				}
				hidden("etcd", value, fmt.Sprint(err, unknown))
				_, err = m.Unmarshal([]byte(text))
				hidden("model", value, fmt.Sprint(err))
				if err == nil {
					t.Errorf("%s: %s is accepted", m.Name(), text)
				}
				_, err = manifest.Parse(fmt.Appendf(nil, "model: %s\nvalue: %s", m.Name(), text))
				hidden("file", value, fmt.Sprint(err))
				for _, data := range []string{text, jsonText(text)} {
					body := fmt.Sprintf(`{"Values":[{"Key":"x","Value":{"ProtoMsgName":%q,"ProtoMsgData":%s}}]}`, typeName, data)
					w := httptest.NewRecorder()
					inspect.Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/scheduler/plan", strings.NewReader(body)))
					hidden("REST", value, w.Body.String())
					if w.Code == http.StatusNotFound || w.Code == http.StatusMethodNotAllowed {
						t.Fatal(w.Code, w.Body.String())
					}
				}
			}
			for _, value := range []string{"!!int x" + secret, "*" + secret, "&" + secret + " *" + secret, "!" + secret + " x", "{[" + secret + "]: 1}", "{a: " + secret, "!!binary " + secret, "@" + secret, "%" + secret} {
				_, err := manifest.Parse(fmt.Appendf(nil, "model: %s\nvalue: "+f.frame, m.Name(), value))
				hidden("YAML", value, fmt.Sprint(err))
			}
		}
	}
	if fields < 8 {
		t.Errorf("only %d secrets were found", fields)
	}
}

func jsonText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// A field of a wrong wire type is an unknown field, which a redacted message lacks.
func TestSecretsOfWrongWireTypesAreRedacted(t *testing.T) {
	const secret = "hunter2-"
	for _, m := range models.All() {
		for _, f := range secretFields(m.New().ProtoReflect().Descriptor(), "", "", 2) {
			msg := m.New()
			wrong := protowire.AppendTag(nil, f.Number(), protowire.StartGroupType)
			wrong = protowire.AppendString(protowire.AppendTag(wrong, 1, protowire.BytesType), secret)
			wrong = protowire.AppendTag(wrong, f.Number(), protowire.EndGroupType)
			inner := msg.ProtoReflect()
			if f.ContainingMessage().FullName() != inner.Descriptor().FullName() {
				continue
			}
			if err := proto.Unmarshal(wrong, msg); err != nil {
				t.Fatal(err)
			}
			packed, err := anypb.New(msg)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []proto.Message{msg, packed} {
				data, err := proto.Marshal(record.Redact(v))
				if err != nil || strings.Contains(string(data), secret) {
					t.Errorf("%s: %s: %q, %v", m.Name(), f.Name(), data, err)
				}
			}
		}
	}
}
