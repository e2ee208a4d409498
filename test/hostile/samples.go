package hostile

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/models"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Samples returns the samples of a model in models/testdata and an empty value.
func Samples(t testing.TB, root string, m *models.Model) []proto.Message {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join(root, "models", "testdata", m.Name()+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	samples := []proto.Message{m.New()}
	for _, f := range archive.Files {
		if f.Name != "json" {
			continue
		}
		v, err := m.Unmarshal(f.Data)
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		samples = append(samples, v)
	}
	return samples
}

// Keyed is a value with its key.
type Keyed struct {
	Key string
	Value
}

// OfModel returns up to most different hostile values of a model, evenly spread over all; 0 means
// all. It gives them unique names if the model allows it and omits keys that are in taken.
func OfModel(t testing.TB, root string, m *models.Model, most int, overlap []string, taken map[string]bool) (values []Keyed) {
	t.Helper()
	seen := map[string]bool{}
	for _, sample := range Samples(t, root, m) {
		for _, v := range Generate(sample, overlap) {
			if _, err := proto.Marshal(v.Message); err != nil {
				continue // invalid UTF-8, which no northbound source accepts
			}
			harmless(v.Message.ProtoReflect())
			if name := nameField(m); name != nil && !strings.HasPrefix(v.What, string(name.Name())+" ") {
				v.Message.ProtoReflect().Set(name, protoreflect.ValueOfString(fmt.Sprintf("h%d", len(values))))
			}
			key := m.Key(v.Message)
			data, err := proto.MarshalOptions{Deterministic: true}.Marshal(v.Message)
			if err != nil {
				t.Fatal(err)
			}
			if id := key + "\x00" + string(data); !taken[key] && !seen[id] && m.Matches(key) {
				seen[id] = true
				values = append(values, Keyed{key, v})
			}
		}
	}
	if most <= 0 || len(values) <= most {
		return values
	}
	some := make([]Keyed, most)
	for i := range some {
		some[i] = values[i*len(values)/most]
	}
	return some
}

// nameField returns the field that the keys of the model begin with, if it can be any text.
func nameField(m *models.Model) protoreflect.FieldDescriptor {
	name, _, _ := strings.Cut(strings.TrimPrefix(m.NamePattern, "{"), "}")
	fd := m.New().ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() || name != "name" && name != "label" {
		return nil
	}
	return fd
}

// harmless replaces references to processes, which would refer to processes of the machine.
func harmless(m protoreflect.Message) {
	if ns, ok := m.Interface().(*linux_namespace.NetNamespace); ok && ns.GetType() == linux_namespace.NetNamespace_PID {
		ns.Reference = "999999999"
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				harmless(v.List().Get(i).Message())
			}
		default:
			harmless(v.Message())
		}
		return true
	})
}

// Layers distributes values over the minimal number of layers in which each key is unique.
func Layers(values []Keyed) (layers [][]Keyed) {
	next := map[string]int{}
	for _, v := range values {
		n := next[v.Key]
		next[v.Key]++
		if n == len(layers) {
			layers = append(layers, nil)
		}
		layers[n] = append(layers[n], v)
	}
	return layers
}
