// Package descriptortest checks errors of validation.
package descriptortest

import (
	"errors"
	"slices"
	"testing"

	"github.com/contiv/contiv/kvscheduler"
)

// WantInvalid fails unless err names the field of the value; "" means that the value is valid.
func WantInvalid(t *testing.T, value any, err error, field string) {
	t.Helper()
	var invalid *kvscheduler.InvalidValueError
	switch {
	case field == "" && err != nil:
		t.Errorf("%v: %v", value, err)
	case field != "" && (!errors.As(err, &invalid) || !slices.Equal(invalid.Fields, []string{field})):
		t.Errorf("%v: got %v, want an error that blames %s", value, err, field)
	}
}

// WantField fails unless err names one field.
func WantField(t *testing.T, name string, err error) {
	t.Helper()
	var invalid *kvscheduler.InvalidValueError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0] == "" {
		t.Errorf("%s: got %v, want an error that names a field", name, err)
	}
}
