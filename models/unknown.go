package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/config"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// UnknownField is a field of a value that its message lacks.
type UnknownField struct {
	// Path of the field: "mtuu", "tap.versoin", "interfaces[2].nam". In binary values the field has
	// a number: "tap.99".
	Path string
	// Similar is the name of a similar field of the message, or "".
	Similar string
}

// Err returns an error for the author of the value.
func (u UnknownField) Err() error {
	if u.Similar != "" {
		return fmt.Errorf("unknown field %q (did you mean %q?)", u.Path, u.Similar)
	}
	return fmt.Errorf("unknown field %q", u.Path)
}

// UnknownFields returns the sorted unknown fields of a message decoded from binary. The message
// keeps them.
func UnknownFields(msg proto.Message) []UnknownField {
	paths := unknownNumbers(msg.ProtoReflect(), "")
	slices.Sort(paths)
	var unknown []UnknownField
	for _, path := range slices.Compact(paths) {
		unknown = append(unknown, UnknownField{Path: path})
	}
	return unknown
}

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
		inner := path + string(field.Name())
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					unknown = append(unknown, unknownNumbers(v.Message(), fmt.Sprintf("%s[%q].", inner, k.String()))...)
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				unknown = append(unknown, unknownNumbers(value.List().Get(i).Message(), fmt.Sprintf("%s[%d].", inner, i))...)
			}
		default:
			unknown = append(unknown, unknownNumbers(value.Message(), inner+".")...)
		}
		return true
	})
	return unknown
}

// jsonWalk compares JSON with a message type.
type jsonWalk struct {
	unknown []UnknownField
	// mistakes are invalid values of fields.
	mistakes []error
}

// object returns the object without unknown fields. path is the path of the object with a trailing
// dot. Data that is not an object is returned unchanged, for protojson to report.
func (w *jsonWalk) object(message protoreflect.MessageDescriptor, data []byte, path string) []byte {
	if message.FullName().Parent() == "google.protobuf" {
		return data // these have special JSON forms
	}
	return members(data, '{', func(name string, _ int, value []byte) []byte {
		field := message.Fields().ByJSONName(name)
		if field == nil {
			field = message.Fields().ByName(protoreflect.Name(name))
		}
		if field == nil {
			w.unknown = append(w.unknown, UnknownField{path + name, similarField(message, name)})
			return nil
		}
		return w.field(field, value, path+name)
	})
}

func (w *jsonWalk) field(field protoreflect.FieldDescriptor, data []byte, path string) []byte {
	switch {
	case field.IsMap():
		return members(data, '{', func(key string, _ int, value []byte) []byte {
			return w.single(field.MapValue(), value, fmt.Sprintf("%s[%q]", path, key))
		})
	case field.IsList():
		if !isJSON(data, '[') {
			w.mistakes = append(w.mistakes, fmt.Errorf("field %q is a list: write its items in [ ]", path))
			return data
		}
		return members(data, '[', func(_ string, i int, value []byte) []byte {
			return w.single(field, value, fmt.Sprintf("%s[%d]", path, i))
		})
	}
	return w.single(field, data, path)
}

func (w *jsonWalk) single(field protoreflect.FieldDescriptor, data []byte, path string) []byte {
	var name string
	switch {
	case field.Message() != nil && field.Message().FullName().Parent() != "google.protobuf" && !isJSON(data, '{'):
		w.mistakes = append(w.mistakes, fmt.Errorf("field %q has fields of its own: write them in { }", path))
	case field.Message() != nil:
		return w.object(field.Message(), data, path+".")
	case string(data) == "null":
	case field.Enum() != nil && json.Unmarshal(data, &name) == nil:
		w.enum(field.Enum(), name, path)
	default:
		w.scalar(field, data, path)
	}
	return data
}

// isJSON reports whether JSON data is null or starts with open.
func isJSON(data []byte, open byte) bool { return data[0] == open || string(data) == "null" }

// kinds describe the values of fields.
var kinds = map[protoreflect.Kind]string{
	protoreflect.BoolKind: "true or false", protoreflect.StringKind: "a text in quotes", protoreflect.BytesKind: "a text in base64",
	protoreflect.Int32Kind: "a whole number", protoreflect.Sint32Kind: "a whole number", protoreflect.Int64Kind: "a whole number", protoreflect.Sint64Kind: "a whole number",
	protoreflect.Uint32Kind: "a whole number from 0 to 4294967295", protoreflect.Uint64Kind: "a whole number, 0 or more",
	protoreflect.FloatKind: "a number", protoreflect.DoubleKind: "a number", protoreflect.EnumKind: "one of its names",
}

// scalar lets protojson decode the field alone. The error does not quote the value: it may be a
// secret, and any field may get one by mistake.
func (w *jsonWalk) scalar(field protoreflect.FieldDescriptor, data []byte, path string) {
	value := string(data)
	switch {
	case field.ContainingMessage().IsMapEntry():
		return
	case field.IsList():
		value = "[" + value + "]"
	}
	err := protojson.Unmarshal(fmt.Appendf(nil, "{%q:%s}", field.Name(), value), dynamicpb.NewMessage(field.ContainingMessage()))
	if takes := kinds[field.Kind()]; err != nil && takes != "" {
		w.mistakes = append(w.mistakes, fmt.Errorf("field %q must be %s", path, takes))
	}
}

func (w *jsonWalk) enum(enum protoreflect.EnumDescriptor, name, path string) {
	if enum.Values().ByName(protoreflect.Name(name)) != nil {
		return
	}
	var known []string
	for i := range enum.Values().Len() {
		known = append(known, string(enum.Values().Get(i).Name()))
	}
	err := fmt.Errorf("field %q must be one of %s", path, strings.Join(known, ", "))
	if nearest, ok := config.Nearest(name, known); ok {
		err = fmt.Errorf("field %q has no such value (did you mean %q?)", path, nearest)
	}
	w.mistakes = append(w.mistakes, err)
}

func similarField(message protoreflect.MessageDescriptor, name string) string {
	var known []string
	for i := range message.Fields().Len() {
		known = append(known, string(message.Fields().Get(i).Name()))
	}
	nearest, _ := config.Nearest(name, known)
	return nearest
}

// members maps the members of a JSON object, or the items of an array, which begins with open. It
// keeps the order and duplicates, and omits those for which f returns nil. Other data is returned
// unchanged.
func members(data []byte, open json.Delim, f func(name string, i int, value []byte) []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if first, err := decoder.Token(); err != nil || first != open {
		return data
	}
	mapped := []byte{byte(open)}
	for i := 0; decoder.More(); i++ {
		var name string
		var value json.RawMessage
		if open == '{' {
			token, err := decoder.Token()
			if err != nil {
				return data
			}
			name, _ = token.(string)
		}
		if decoder.Decode(&value) != nil {
			return data
		}
		if value = f(name, i, value); value == nil {
			continue
		}
		if len(mapped) > 1 {
			mapped = append(mapped, ',')
		}
		if open == '{' {
			quoted, err := json.Marshal(name)
			if err != nil {
				return data
			}
			mapped = append(append(mapped, quoted...), ':')
		}
		mapped = append(mapped, value...)
	}
	end, err := decoder.Token()
	if err != nil {
		return data
	}
	if _, err := decoder.Token(); err != io.EOF {
		return data // trailing data
	}
	return append(mapped, end.(json.Delim).String()...)
}
