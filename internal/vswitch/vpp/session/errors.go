package session

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
)

// isUnsupported reports whether VPP lacks the requested feature.
func isUnsupported(err error) bool { return errors.Is(err, kvscheduler.ErrUnsupported) }

// IgnoreUnsupported drops the error of a missing feature, which has no objects.
func IgnoreUnsupported(doing string, err error) error {
	if err == nil || isUnsupported(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Wrap adds the failed operation to an error; nil stays nil.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// FirstError returns the first error of several requests.
func FirstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
