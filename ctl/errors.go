package ctl

import "errors"

// ErrReported is returned by commands that have already printed what failed, so that only the exit
// code is left to set.
var ErrReported = errors.New("failed")

// exitError is an error with an exit code other than 1.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// ExitCode returns the exit code of a command that ended with the error.
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
