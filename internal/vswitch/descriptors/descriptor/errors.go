package descriptor

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
)

// Invalid blames fields of a value.
func Invalid(field, format string, args ...any) error {
	return kvscheduler.NewInvalidValueError(fmt.Errorf(format, args...), field)
}

// retriable reports whether a retry may help: not for unsupported values and namespaces that have
// ceased to exist.
func retriable(err error) bool {
	return !errors.Is(err, kvscheduler.ErrUnsupported) && !errors.Is(err, vswitch.ErrNamespaceGone)
}
