package models

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FieldError is what no field of any model may have.
type FieldError struct {
	// Path leads to the field: "protocol", "rules[2].action".
	Path string
	// Problem follows the name of the field.
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q %s", e.Path, e.Problem) }

// Check returns an error for a field whose content is wrong in any model: a number that an
// enumeration has no name for, or a text with a zero byte, where texts end for vswitches.
// Both get through decoding. Of several it returns one.
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

// in returns the error of a field of the message that is the field of the name.
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

// checkField returns an error whose path begins below the field.
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
