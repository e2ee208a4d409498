package vswitch

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
)

// Unsupported returns an error for a request that a vswitch cannot satisfy. The text names the
// request, and the alternative if there is one.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kvscheduler.ErrUnsupported, fmt.Sprintf(format, args...))
}

// ErrNamespaceGone says that the network namespace which a value refers to does
// not exist. It does not come back: a new one is another value.
var ErrNamespaceGone = errors.New("network namespace does not exist")
