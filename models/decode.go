package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/contiv/contiv/config"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// decode fills msg from protojson, with lowerCamelCase or original field names, or from
// binary protobuf. Unknown fields are errors that name all of them: a value that
// is understood in part would be configured in part.
//
// The two forms are told apart like this. JSON of a message is an object: it starts
// with '{', perhaps after white space. A binary message starts with the tag of a
// field, and '{' is the tag of field 15 with wire type 3, a group, which proto3
// does not have. So what starts with '{' is JSON. White space is another matter:
// '\n' is the tag of a string in field 1, the name in most messages, and "\n{"
// begins the binary form of a name of 123 bytes. What starts with white space and
// '{' is JSON if all of it is.
func decode(data []byte, msg proto.Message) error {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		if len(text) == len(data) || json.Valid(data) {
			return decodeJSON(data, msg)
		}
		if decodeBinary(data, msg) == nil {
			return nil
		}
		return decodeJSON(data, msg)
	}
	return decodeBinary(data, msg)
}

func decodeJSON(data []byte, msg proto.Message) error {
	strict := protojson.Unmarshal(data, msg)
	if strict == nil {
		return nil
	}
	if lenient := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, msg); lenient != nil {
		return fmt.Errorf("is no JSON of %s: %w", proto.MessageName(msg), lenient)
	}
	if unknown := unknownJSON(msg.ProtoReflect().Descriptor(), data, ""); len(unknown) > 0 {
		return fmt.Errorf("is no JSON of %s: %w", proto.MessageName(msg), errors.Join(unknown...))
	}
	return fmt.Errorf("is no JSON of %s: %w", proto.MessageName(msg), strict)
}

func decodeBinary(data []byte, msg proto.Message) error {
	name := proto.MessageName(msg)
	if err := proto.Unmarshal(data, msg); err != nil {
		if utf8.Valid(data) && !bytes.ContainsFunc(data, isBinary) {
			return fmt.Errorf("is no JSON object, which begins with {, nor binary protobuf of %s", name)
		}
		return fmt.Errorf("is no binary protobuf of %s, and JSON begins with {: %w", name, err)
	}
	if unknown := unknownNumbers(msg.ProtoReflect(), ""); len(unknown) > 0 {
		return fmt.Errorf("is no binary protobuf of %s that is understood: unknown fields with the numbers %s", name, strings.Join(unknown, ", "))
	}
	return nil
}

// isBinary tells if text does not have the character.
func isBinary(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) }

// unknownJSON returns an error for each field of a JSON object that the message lacks;
// path is that of the object, with a dot behind it.
func unknownJSON(descriptor protoreflect.MessageDescriptor, data []byte, path string) (unknown []error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || descriptor.FullName().Parent() == "google.protobuf" {
		return nil // those have a JSON form of their own
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field := descriptor.Fields().ByJSONName(name)
		if field == nil {
			field = descriptor.Fields().ByName(protoreflect.Name(name))
		}
		switch {
		case field == nil:
			unknown = append(unknown, unknownField(descriptor, path, name))
		case field.IsMap():
			var values map[string]json.RawMessage
			if field.MapValue().Message() != nil && json.Unmarshal(object[name], &values) == nil {
				for _, key := range slices.Sorted(maps.Keys(values)) {
					unknown = append(unknown, unknownJSON(field.MapValue().Message(), values[key], fmt.Sprintf("%s%s[%q].", path, name, key))...)
				}
			}
		case field.Message() == nil:
		case field.IsList():
			var items []json.RawMessage
			if json.Unmarshal(object[name], &items) == nil {
				for i, item := range items {
					unknown = append(unknown, unknownJSON(field.Message(), item, fmt.Sprintf("%s%s[%d].", path, name, i))...)
				}
			}
		default:
			unknown = append(unknown, unknownJSON(field.Message(), object[name], path+name+".")...)
		}
	}
	return unknown
}

func unknownField(descriptor protoreflect.MessageDescriptor, path, name string) error {
	err := fmt.Errorf("unknown field %q", path+name)
	var known []string
	for i := range descriptor.Fields().Len() {
		known = append(known, string(descriptor.Fields().Get(i).Name()))
	}
	if nearest, ok := config.Nearest(name, known); ok {
		return fmt.Errorf("%w (did you mean %q?)", err, nearest)
	}
	return err
}

// unknownNumbers returns the numbers of the unknown fields of a message, after the
// names of the fields that contain them.
func unknownNumbers(m protoreflect.Message, path string) (unknown []string) {
	for rest := m.GetUnknown(); len(rest) > 0; {
		number, _, length := protowire.ConsumeField(rest)
		if length < 0 {
			break
		}
		unknown = append(unknown, fmt.Sprint(path, number))
		rest = rest[length:]
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		inner := path + string(field.Name()) + "."
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					unknown = append(unknown, unknownNumbers(v.Message(), inner)...)
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				unknown = append(unknown, unknownNumbers(value.List().Get(i).Message(), inner)...)
			}
		default:
			unknown = append(unknown, unknownNumbers(value.Message(), inner)...)
		}
		return true
	})
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// noModel is the error for a key that matches no model. It names the prefix with which
// the key would be most like itself.
func noModel(key string) error {
	prefixes := make(map[string]string)
	for _, m := range all {
		prefix := m.KeyPrefix()
		parts := strings.SplitN(key, "/", strings.Count(prefix, "/")+1)
		name := ""
		if len(parts) > strings.Count(prefix, "/") && !m.Singleton() {
			name = parts[len(parts)-1]
		}
		prefixes[prefix+name] = prefix
	}
	if nearest, ok := config.Nearest(key, slices.Sorted(maps.Keys(prefixes))); ok {
		return fmt.Errorf("key %q matches no model: did you mean %q? (`contivctl models` lists the models)", key, prefixes[nearest])
	}
	return fmt.Errorf("key %q matches no model: `contivctl models` lists the models", key)
}
