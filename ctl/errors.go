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

// Exit codes. 1 and 2 are verdicts of commands that judge, such as "status" and "why".
const (
	exitBroken  = 2 // a node
	exitUnknown = 2 // whether packets arrive
	exitUsage   = 3
)

// Misused marks the error of a command that cannot be executed as it is written.
func Misused(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{err, exitUsage}
}

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
