package models

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FieldError is a field with content that is invalid in any model.
type FieldError struct {
	// Path of the field: "protocol", "rules[2].action".
	Path string
	// Problem follows the path in the error.
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q %s", e.Path, e.Problem) }

// Check returns the first field that is invalid in any model although it can be decoded: an unknown
// enum number, or a text with a zero byte, which would truncate it in a vswitch.
func Check(value proto.Message) *FieldError { return checkMessage(value.ProtoReflect()) }

func checkMessage(m protoreflect.Message) (err *FieldError) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch {
		case field.IsMap():
		case !field.IsList():
			err = checkField(field, value).in(name)
		default:
			for i := 0; i < value.List().Len() && err == nil; i++ {
				if err = checkField(field, value.List().Get(i)); err != nil {
					err = err.in(fmt.Sprintf("%s[%d]", name, i))
				}
			}
		}
		return err == nil
	})
	return err
}

// in adds the name of the enclosing field to the path.
func (e *FieldError) in(name string) *FieldError {
	switch {
	case e == nil:
	case e.Path == "":
		e.Path = name
	default:
		e.Path = name + "." + e.Path
	}
	return e
}

// checkField returns an error with a path relative to the field.
func checkField(field protoreflect.FieldDescriptor, value protoreflect.Value) *FieldError {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return checkMessage(value.Message())
	case protoreflect.StringKind:
		if strings.Contains(value.String(), "\x00") {
			return &FieldError{Problem: "has a zero byte: leave it out"}
		}
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		if values.ByNumber(value.Enum()) != nil {
			return nil
		}
		names := make([]string, values.Len())
		for i := range names {
			names[i] = string(values.Get(i).Name())
		}
		return &FieldError{Problem: fmt.Sprintf("cannot be %d, but one of %s", value.Enum(), strings.Join(names, ", "))}
	}
	return nil
}
