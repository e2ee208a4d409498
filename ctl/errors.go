package ctl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/config"
)

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

// hinted completes an error about a word that is not known by the nearest known
// one.
func hinted(err error, word string, known []string) error {
	if nearest, ok := config.Nearest(word, known); ok && nearest != word {
		return fmt.Errorf("%w: did you mean %q?", err, nearest)
	}
	all := strings.Join(known, ", ")
	switch {
	case len(known) == 0:
		return err
	case len(all) > 200:
		return fmt.Errorf("%w: nothing similar is known", err)
	}
	return fmt.Errorf("%w: known are %s", err, all)
}
