package models

import (
	"math"

	"github.com/contiv/contiv/api/ligato"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Schema returns a JSON schema (draft 7) of the model's messages in protojson, for editors. Fields
// have the names of the .proto file or lowerCamelCase; unknown ones are invalid. Address fields
// accept references to allocated addresses.
func (m *Model) Schema() map[string]any {
	s := schemas{}
	descriptor := m.message.ProtoReflect().Descriptor()
	return map[string]any{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"title":       m.ProtoName(),
		"description": "Value of the key " + m.KeyPattern(),
		"allOf":       []any{s.reference(descriptor)},
		"definitions": map[string]any(s),
	}
}

type schemas map[string]any

// reference returns a reference to the schema of the message, which it adds if missing.
func (s schemas) reference(message protoreflect.MessageDescriptor) map[string]any {
	name := string(message.FullName())
	if s[name] == nil {
		schema := map[string]any{"type": "object", "additionalProperties": false}
		s[name] = schema // before its fields, which may refer to it
		properties := make(map[string]any)
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			fieldSchema := s.field(field)
			properties[string(field.Name())], properties[field.JSONName()] = fieldSchema, fieldSchema
		}
		schema["properties"] = properties
		if oneofs := oneofSchemas(message); len(oneofs) > 0 {
			schema["allOf"] = oneofs
		}
	}
	return map[string]any{"$ref": "#/definitions/" + name}
}

// oneofSchemas returns, for each oneof, a schema that permits at most one of its fields.
func oneofSchemas(message protoreflect.MessageDescriptor) (all []any) {
	for i := range message.Oneofs().Len() {
		fields := message.Oneofs().Get(i).Fields()
		var each []any
		for j := range fields.Len() {
			each = append(each, anyOf(
				map[string]any{"required": []any{string(fields.Get(j).Name())}},
				map[string]any{"required": []any{fields.Get(j).JSONName()}},
			))
		}
		none := map[string]any{"not": map[string]any{"anyOf": each}}
		all = append(all, map[string]any{"oneOf": append([]any{none}, each...)})
	}
	return all
}

func (s schemas) field(field protoreflect.FieldDescriptor) map[string]any {
	var schema map[string]any
	switch {
	case field.IsMap():
		schema = map[string]any{"type": "object", "additionalProperties": s.single(field.MapValue())}
	case field.IsList():
		schema = map[string]any{"type": "array", "items": s.single(field)}
	default:
		schema = s.single(field)
	}
	if options, _ := field.Options().(interface{ GetDeprecated() bool }); options != nil && options.GetDeprecated() {
		schema = map[string]any{"allOf": []any{schema}, "deprecated": true}
	}
	return schema
}

func (s schemas) single(field protoreflect.FieldDescriptor) map[string]any {
	options, _ := proto.GetExtension(field.Options(), ligato.E_LigatoOptions).(*ligato.LigatoOptions)
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.reference(field.Message())
	case protoreflect.EnumKind:
		return enumSchema(field.Enum())
	case protoreflect.BoolKind:
		return map[string]any{"type": "boolean"}
	case protoreflect.StringKind:
		return addressSchema(options.GetType())
	case protoreflect.BytesKind:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return anyOf(map[string]any{"type": "number"}, map[string]any{"enum": []any{"NaN", "Infinity", "-Infinity"}})
	}
	return integerSchema(field.Kind(), options.GetIntRange())
}

func enumSchema(enum protoreflect.EnumDescriptor) map[string]any {
	var names []any
	for i := range enum.Values().Len() {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return anyOf(map[string]any{"enum": names}, map[string]any{"type": "integer"})
}

// integerSchema returns the schema of an integer. 64-bit integers may be strings.
func integerSchema(kind protoreflect.Kind, r *ligato.LigatoOptions_IntRange) map[string]any {
	schema := map[string]any{"type": "integer"}
	switch kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		schema["minimum"], schema["maximum"] = 0, math.MaxUint32
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		schema["minimum"], schema["maximum"] = math.MinInt32, math.MaxInt32
	default:
		return anyOf(schema, map[string]any{"type": "string", "pattern": "^-?[0-9]+$"})
	}
	if r != nil {
		schema["minimum"], schema["maximum"] = r.GetMinimum(), r.GetMaximum()
	}
	return schema
}

// addressSchema returns the schema of a string, with a pattern if the type is an address. The empty
// string is unset.
func addressSchema(t ligato.LigatoOptions_Type) map[string]any {
	const (
		v4, v6             = `[0-9]{1,3}(\.[0-9]{1,3}){3}`, `[0-9A-Fa-f]*:[0-9A-Fa-f:.]*`
		either, other      = "(" + v4 + "|" + v6 + ")", "^$|^alloc:.+$|"
		length, mayHaveOne = "/[0-9]{1,3}", "(/[0-9]{1,3})?"
	)
	form, ok := map[ligato.LigatoOptions_Type]string{
		ligato.LigatoOptions_IP:                 either,
		ligato.LigatoOptions_IPV4:               v4,
		ligato.LigatoOptions_IPV6:               v6,
		ligato.LigatoOptions_IP_WITH_MASK:       either + length,
		ligato.LigatoOptions_IPV4_WITH_MASK:     v4 + length,
		ligato.LigatoOptions_IPV6_WITH_MASK:     v6 + length,
		ligato.LigatoOptions_IP_OPTIONAL_MASK:   either + mayHaveOne,
		ligato.LigatoOptions_IPV4_OPTIONAL_MASK: v4 + mayHaveOne,
		ligato.LigatoOptions_IPV6_OPTIONAL_MASK: v6 + mayHaveOne,
	}[t]
	if !ok {
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "string", "pattern": other + "^" + form + "$"}
}

func anyOf(schemas ...any) map[string]any { return map[string]any{"anyOf": schemas} }
