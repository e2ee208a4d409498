package descriptor

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch"
)

// Invalid blames fields of a value.
func Invalid(field, format string, args ...any) error {
	return kvscheduler.NewInvalidValueError(fmt.Errorf(format, args...), field)
}

// retriable: everything that a driver reports may go away, except what it
// cannot do at all, and namespaces that have ceased to exist.
func retriable(err error) bool {
	return !errors.Is(err, kvscheduler.ErrUnsupported) && !errors.Is(err, vswitch.ErrNamespaceGone)
}
