package vswitch

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
)

// Unsupported returns an error for a request that a vswitch cannot satisfy. The text names the
// request, and the alternative if one exists.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kvscheduler.ErrUnsupported, fmt.Sprintf(format, args...))
}

// ErrNamespaceGone means that the network namespace of a value does not exist. It is permanent: a
// new namespace is another value.
var ErrNamespaceGone = errors.New("network namespace does not exist")
