package text

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/config"
)

// Hinted adds the most similar known word to an error about an unknown one.
func Hinted(err error, word string, known []string) error {
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
