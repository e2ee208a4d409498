// Package valid contains the validation that all descriptors of northbound models share.
package valid

import (
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Checked returns a Validate function of a descriptor that applies models.Check before validate,
// which may be nil.
func Checked[V proto.Message](validate func(key string, value V) error) func(string, V) error {
	return func(key string, value V) error {
		if err := models.Check(value); err != nil {
			return kvscheduler.NewInvalidValueError(err, err.Path)
		}
		if validate == nil {
			return nil
		}
		return validate(key, value)
	}
}
