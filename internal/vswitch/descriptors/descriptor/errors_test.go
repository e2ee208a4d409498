package descriptor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
)

func TestWhatCannotWorkIsNotRetried(t *testing.T) {
	for _, err := range []error{vswitch.Unsupported("memif"), vswitch.ErrNamespaceGone} {
		if retriable(fmt.Errorf("creating x: %w", err)) {
			t.Errorf("%v is retried", err)
		}
	}
	if !retriable(errors.New("device is busy")) {
		t.Error("a temporary error is not retried")
	}
}
