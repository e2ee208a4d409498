package models

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// UndefinedEnumError is a number that an enumeration has no name for, which binary and JSON
// values may have.
type UndefinedEnumError struct {
	// Path leads to the field: "protocol", "rules[2].action".
	Path   string
	Number int32
	// Names are those that the enumeration has.
	Names []string
}

func (e *UndefinedEnumError) Error() string {
	return fmt.Sprintf("field %q cannot be %d, but one of %s", e.Path, e.Number, strings.Join(e.Names, ", "))
}

// CheckEnums returns an error for the first enumeration of a value that has an undefined
// number.
func CheckEnums(value proto.Message) *UndefinedEnumError { return checkEnums(value.ProtoReflect(), "") }

func checkEnums(m protoreflect.Message, path string) (err *UndefinedEnumError) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.IsMap() || field.Message() == nil && field.Enum() == nil {
			return true
		}
		inner := path + string(field.Name())
		if !field.IsList() {
			err = checkEnum(field, value, inner)
			return err == nil
		}
		for i := range value.List().Len() {
			if err = checkEnum(field, value.List().Get(i), fmt.Sprintf("%s[%d]", inner, i)); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

func checkEnum(field protoreflect.FieldDescriptor, value protoreflect.Value, path string) *UndefinedEnumError {
	if field.Message() != nil {
		return checkEnums(value.Message(), path+".")
	}
	values := field.Enum().Values()
	if values.ByNumber(value.Enum()) != nil {
		return nil
	}
	err := &UndefinedEnumError{Path: path, Number: int32(value.Enum())}
	for i := range values.Len() {
		err.Names = append(err.Names, string(values.Get(i).Name()))
	}
	return err
}
