package text

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/lib/config"
)

// ErrMistake is wrapped by usage errors.
var ErrMistake = errors.New("the command line has a mistake")

// Mistake marks an error as a usage error.
func Mistake(err error) error {
	if err == nil {
		return nil
	}
	return mistake{err}
}

type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

func (mistake) Is(target error) bool { return target == ErrMistake }

// Hinted adds the most similar known word to an error about an unknown one, and marks it as a usage
// error.
func Hinted(err error, word string, known []string) error { return Mistake(hinted(err, word, known)) }

func hinted(err error, word string, known []string) error {
	if nearest, ok := config.Nearest(word, known); ok && nearest != word {
		return fmt.Errorf("%w: did you mean %q?", err, nearest)
	}
	all := strings.Join(known, ", ")
	switch {
	case len(known) == 0:
		return err
	case len(all) > 200:
		return fmt.Errorf("%w: no similar name exists", err)
	}
	return fmt.Errorf("%w: use one of %s", err, all)
}
