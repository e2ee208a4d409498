package ctl

import "errors"

// ErrReported is returned by commands that have told already what failed: there
// is only the exit code left to set.
var ErrReported = errors.New("failed")

// exitError is an error with an exit code other than 1.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// ExitCode is that of a command that ended with the error.
func ExitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	return 1
}
