package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Decode decodes the value of a key, which is JSON with lowerCamelCase or original field names, or
// binary protobuf, and checks that the value belongs to the key. The error lists all problems with
// remedies.
//
// Unknown fields, such as fields of newer versions, are returned and not errors: the value is
// usable without them. In binary values they stay in the message. Unknown enum numbers stay, too.
// Unknown enum names are errors, because omitting them would change the meaning.
func Decode(key string, data []byte) (proto.Message, []UnknownField, error) {
	m, ok := ForKey(key)
	if !ok {
		return nil, nil, noModel(key)
	}
	msg := m.New()
	unknown, err := decode(data, msg)
	if err != nil {
		return nil, nil, fmt.Errorf("value of key %q %w", key, err)
	}
	if want := m.Key(msg); want != key {
		err = fmt.Errorf("value of key %q describes %q: make the fields that name it agree with the key", key, want)
		for _, u := range unknown {
			err = fmt.Errorf("%w; %w", err, u.Err())
		}
		return nil, nil, err
	}
	return msg, unknown, nil
}

// Unmarshal decodes a value of the model, whatever its key. Unknown fields are errors.
func (m *Model) Unmarshal(data []byte) (proto.Message, error) {
	msg := m.New()
	unknown, err := decode(data, msg)
	if err != nil {
		return nil, fmt.Errorf("value of model %s %w", m.Name(), err)
	}
	if err := unknownErr(unknown); err != nil {
		return nil, fmt.Errorf("value of model %s: %w", m.Name(), err)
	}
	return msg, nil
}

// Unmarshal is Decode with unknown fields as errors.
func Unmarshal(key string, data []byte) (proto.Message, error) {
	msg, unknown, err := Decode(key, data)
	if err != nil {
		return nil, err
	}
	if err := unknownErr(unknown); err != nil {
		return nil, fmt.Errorf("value of key %q is no %s: %w", key, proto.MessageName(msg), err)
	}
	return msg, nil
}

func unknownErr(unknown []UnknownField) error {
	mistakes := make([]error, len(unknown))
	for i, u := range unknown {
		mistakes[i] = u.Err()
	}
	return errors.Join(mistakes...)
}

// Marshal encodes a value as stored in etcd: protojson with the field names of the .proto file.
func Marshal(msg proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
}

// decode fills msg from protojson or binary protobuf.
//
// JSON of a message starts with '{', possibly after white space. In binary, '{' is the tag of field
// 15 with wire type 3, a group, which proto3 does not have. So data that starts with '{' is JSON.
// White space is ambiguous: '\n' is the tag of a string in field 1, the name in most messages, and
// "\n{" starts a name of 123 bytes. Data that starts with white space and '{' is JSON if all of it
// is valid JSON.
func decode(data []byte, msg proto.Message) ([]UnknownField, error) {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		if len(text) == len(data) || json.Valid(data) {
			return DecodeJSON(data, msg)
		}
		if unknown, err := decodeBinary(data, msg); err == nil {
			return unknown, nil
		}
		return DecodeJSON(data, msg)
	}
	return decodeBinary(data, msg)
}

// DecodeJSON decodes the JSON object into any message and returns the unknown fields. protojson
// could discard them itself, but would discard unknown enum names, too.
func DecodeJSON(data []byte, msg proto.Message) ([]UnknownField, error) {
	strict := protojson.Unmarshal(data, msg)
	if strict == nil {
		return nil, nil
	}
	w := jsonWalk{}
	rest := w.object(msg.ProtoReflect().Descriptor(), data, "")
	if len(w.unknown) > 0 {
		strict = protojson.Unmarshal(rest, msg)
	}
	mistakes := w.mistakes
	if strict != nil && len(mistakes) == 0 {
		mistakes = []error{jsonMistake(data, strict)}
	}
	if len(mistakes) > 0 {
		for _, u := range w.unknown {
			mistakes = append(mistakes, u.Err())
		}
		return nil, fmt.Errorf("is no JSON of %s: %w", proto.MessageName(msg), errors.Join(mistakes...))
	}
	return w.unknown, nil
}

// named matches the errors of protojson that quote names of fields only.
var named = regexp.MustCompile(`duplicate field "\w*"|error parsing "\w*", oneof [\w.]+ is already set`)

// place matches the position in an error of protojson.
var place = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// jsonMistake describes an error of protojson. It quotes no value, which may be a secret.
func jsonMistake(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(data, new(json.RawMessage)), &syntax) {
		what := named.FindString(err.Error())
		if what == "" {
			what = "the value does not fit its field"
		}
		if at := place.FindStringSubmatch(err.Error()); at != nil {
			return fmt.Errorf("line %s, column %s: %s", at[1], at[2], what)
		}
		return errors.New(what)
	}
	if syntax.Error() == "unexpected end of JSON input" {
		return fmt.Errorf("it is truncated after %d bytes: close all brackets and quotes", len(data))
	}
	text := data[:max(syntax.Offset-1, 0)]
	line := 1 + bytes.Count(text, []byte("\n"))
	column := len(text) - bytes.LastIndexByte(text, '\n')
	return fmt.Errorf("line %d, column %d: %w", line, column, syntax)
}

func decodeBinary(data []byte, msg proto.Message) ([]UnknownField, error) {
	name := proto.MessageName(msg)
	if err := proto.Unmarshal(data, msg); err != nil {
		if utf8.Valid(data) && !bytes.ContainsFunc(data, isBinary) {
			return nil, fmt.Errorf("is no JSON object, which begins with {, nor binary protobuf of %s", name)
		}
		return nil, fmt.Errorf("is no binary protobuf of %s, and JSON begins with {: %w", name, err)
	}
	return UnknownFields(msg), nil
}

// isBinary reports whether a character does not occur in text.
func isBinary(r rune) bool { return r < ' ' && r != '\t' && r != '\r' && r != '\n' }
