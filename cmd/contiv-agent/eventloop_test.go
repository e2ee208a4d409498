package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
)

// If the agent ends without a first resync, its error starts with the reason why etcd is
// unreachable.
func TestRootCauseComesFirst(t *testing.T) {
	refused, other := errors.New("etcd: connection refused"), errors.New("no node ID is free")
	late := fmt.Errorf("%w within the first 1m", controller.ErrNoStartupResync)
	if err := withCause(late, refused); !errors.Is(err, controller.ErrNoStartupResync) || !strings.HasPrefix(err.Error(), "etcd: connection refused: startup resync has not executed") {
		t.Error(err)
	}
	if err := withCause(late, nil); err != late {
		t.Error(err)
	}
	if err := withCause(other, refused); err != other {
		t.Error(err)
	}
}
