package record

import (
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/contiv/contiv/internal/lib/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// form is the encoding of a message type.
type form struct {
	// foreign messages are encoded by protojson: well-known types such as google.protobuf.Any, and proto2
	// messages.
	foreign bool
	fields  []fieldForm
}

type fieldForm struct {
	protoreflect.FieldDescriptor
	name string // with quotes and colon
}

// forms caches forms by message descriptor.
var forms sync.Map

func formOf(d protoreflect.MessageDescriptor) *form {
	if known, ok := forms.Load(d); ok {
		return known.(*form)
	}
	f := &form{foreign: d.ParentFile().Package() == "google.protobuf" || d.ParentFile().Syntax() != protoreflect.Proto3}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f.fields = append(f.fields, fieldForm{fd, string(append(jsontext.AppendString(nil, fd.TextName()), ':'))})
	}
	forms.Store(d, f)
	return f
}

// appendMessage appends the protojson of m with proto field names and without spaces, faster than protojson.
// If ok is false, m needs protojson.
func appendMessage(b []byte, m protoreflect.Message) (_ []byte, ok bool) {
	f := formOf(m.Descriptor())
	if f.foreign {
		return b, false
	}
	b = append(b, '{')
	begin := len(b)
	for _, fd := range f.fields {
		if !m.Has(fd.FieldDescriptor) {
			continue
		}
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(b, fd.name...)
		v := m.Get(fd.FieldDescriptor)
		switch {
		case fd.IsList():
			b, ok = appendElements(b, fd, v.List())
		case fd.IsMap():
			b, ok = appendMap(b, fd, v.Map())
		default:
			b, ok = appendSingular(b, fd, v)
		}
		if !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

func appendElements(b []byte, fd protoreflect.FieldDescriptor, list protoreflect.List) (_ []byte, ok bool) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendSingular(b, fd, list.Get(i)); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func appendMap(b []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) (_ []byte, ok bool) {
	var keys []protoreflect.MapKey
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, compareKeys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if !utf8.ValidString(key.String()) {
			return b, false
		}
		b = append(jsontext.AppendString(b, key.String()), ':')
		if b, ok = appendSingular(b, fd.MapValue(), m.Get(key)); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

func compareKeys(a, b protoreflect.MapKey) int {
	switch a.Interface().(type) {
	case int32, int64:
		return cmp.Compare(a.Int(), b.Int())
	case uint32, uint64:
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.String(), b.String()) // false before true
}

func appendSingular(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) (_ []byte, ok bool) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), true
	case protoreflect.StringKind:
		text := v.String()
		return jsontext.AppendString(b, text), utf8.ValidString(text)
	case protoreflect.BytesKind:
		b = append(b, '"')
		return append(base64.StdEncoding.AppendEncode(b, v.Bytes()), '"'), true
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(b, v.Int(), 10), true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(b, v.Uint(), 10), true
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"'), true
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return append(strconv.AppendUint(append(b, '"'), v.Uint(), 10), '"'), true
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return appendFloat(b, v.Float(), fd.Kind())
	case protoreflect.EnumKind:
		if d := fd.Enum().Values().ByNumber(v.Enum()); d != nil && fd.Enum().FullName() != "google.protobuf.NullValue" {
			return jsontext.AppendString(b, string(d.Name())), true
		} else if d == nil {
			return strconv.AppendInt(b, int64(v.Enum()), 10), true
		}
	case protoreflect.MessageKind:
		if formOf(v.Message().Descriptor()).foreign {
			text, err := protojsonOf(v.Message().Interface())
			return append(b, text...), err == nil
		}
		return appendMessage(b, v.Message())
	}
	return b, false
}

// appendFloat encodes simple numbers, and leaves all others to protojson.
func appendFloat(b []byte, f float64, kind protoreflect.Kind) (_ []byte, ok bool) {
	bits := 64
	if kind == protoreflect.FloatKind {
		bits = 32
	}
	size := math.Abs(f)
	if f != 0 && (math.IsNaN(f) || size < 1e-6 || size >= 1e21) {
		return b, false
	}
	return strconv.AppendFloat(b, f, 'f', -1, bits), true
}

// appendCompact appends the result of Compact, and reports whether it is a JSON object.
func appendCompact(b []byte, v proto.Message) (_ []byte, object bool) {
	if r, ok := v.(*RawValue); ok {
		return append(b, r.JSON...), false
	}
	v = Redact(v)
	begin := len(b)
	if b, object = appendMessage(b, v.ProtoReflect()); object {
		return b, true
	}
	text, err := protojsonOf(v)
	return append(b[:begin], text...), err == nil && strings.HasPrefix(text, "{")
}
