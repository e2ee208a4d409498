package models_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato"
	_ "github.com/contiv/contiv/api/ligato/configurator"
	_ "github.com/contiv/contiv/api/ligato/generic"
	_ "github.com/contiv/contiv/api/ligato/govppmux"
	_ "github.com/contiv/contiv/api/ligato/kvscheduler"
	_ "github.com/contiv/contiv/api/ligato/linux/punt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Messages, enums and methods known to clients of ligato and Contiv/VPP keep their names, numbers,
// types and JSON names. Our additions have numbers from 1000, so that they do not collide with
// theirs.
func TestMessages(t *testing.T) {
	const file = "testdata/messages.txt"
	now := describeAPI()
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range golden {
		if !slices.Contains(now, line) {
			t.Errorf("gone, or no longer like this: %s", line)
		}
	}
	for _, line := range now {
		if slices.Contains(golden, line) {
			continue
		}
		if words := strings.Fields(line); words[0] == "field" || words[0] == "value" {
			number, err := strconv.Atoi(words[2])
			container := words[1][:strings.LastIndex(words[1], ".")]
			known := slices.Contains(golden, "message "+container) || slices.Contains(golden, "enum "+container)
			if err != nil || known && number < 1000 {
				t.Errorf("added with a number below 1000: %s", line)
			}
		}
	}
}

// describeAPI returns a line for each element of the API.
func describeAPI() (lines []string) {
	var files []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(f.Path(), "ligato/") || f.Path() == "contiv/rpc/rpc.proto" {
			files = append(files, f)
		}
		return true
	})
	slices.SortFunc(files, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	d := apiDescription{}
	for _, f := range files {
		d.line("file %s", f.Path())
		for i := range f.Extensions().Len() {
			e := f.Extensions().Get(i)
			d.line("extension %s %d of %s %s", e.FullName(), e.Number(), e.ContainingMessage().FullName(), typeOf(e))
		}
		for i := range f.Services().Len() {
			d.service(f.Services().Get(i))
		}
		d.enums(f.Enums())
		d.messages(f.Messages())
	}
	return d.lines
}

type apiDescription struct{ lines []string }

func (d *apiDescription) line(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *apiDescription) service(s protoreflect.ServiceDescriptor) {
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		stream := ""
		if m.IsStreamingServer() {
			stream = "stream "
		}
		d.line("rpc /%s/%s %s -> %s%s", s.FullName(), m.Name(), m.Input().FullName(), stream, m.Output().FullName())
	}
}

func (d *apiDescription) enums(enums protoreflect.EnumDescriptors) {
	for i := range enums.Len() {
		enum := enums.Get(i)
		d.line("enum %s", enum.FullName())
		for j := range enum.Values().Len() {
			d.line("value %s.%s %d", enum.FullName(), enum.Values().Get(j).Name(), enum.Values().Get(j).Number())
		}
	}
}

func (d *apiDescription) messages(messages protoreflect.MessageDescriptors) {
	for i := range messages.Len() {
		message := messages.Get(i)
		if message.IsMapEntry() {
			continue
		}
		d.line("message %s", message.FullName())
		for j := range message.Fields().Len() {
			f := message.Fields().Get(j)
			d.line("field %s %d JSON %s: %s%s", f.FullName(), f.Number(), f.JSONName(), typeOf(f), optionsOf(f))
		}
		d.enums(message.Enums())
		d.messages(message.Messages())
	}
}

func typeOf(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s,%s>", typeOf(f.MapKey()), typeOf(f.MapValue()))
	case f.Message() != nil:
		name = string(f.Message().FullName())
	case f.Enum() != nil:
		name = string(f.Enum().FullName())
	}
	if f.IsList() {
		name = "repeated " + name
	}
	if oneof := f.ContainingOneof(); oneof != nil {
		name += " of " + string(oneof.Name())
	}
	return name
}

func optionsOf(f protoreflect.FieldDescriptor) (text string) {
	options, _ := proto.GetExtension(f.Options(), ligato.E_LigatoOptions).(*ligato.LigatoOptions)
	if options.GetType() != ligato.LigatoOptions_UNSPECIFIED {
		text = " " + options.GetType().String()
	}
	if r := options.GetIntRange(); r != nil {
		text = fmt.Sprintf(" %d..%d", r.GetMinimum(), r.GetMaximum())
	}
	return text
}
