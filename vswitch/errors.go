package vswitch

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
)

// Unsupported returns an error for what a vswitch cannot do; the text says what,
// and what to do instead if there is something.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kvscheduler.ErrUnsupported, fmt.Sprintf(format, args...))
}

// ErrNamespaceGone says that the network namespace which a value refers to does
// not exist. It does not come back: a new one is another value.
var ErrNamespaceGone = errors.New("network namespace does not exist")
