package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/plugins/plugintest"
)

// Components stop in the opposite order, then their tasks end, then the components close in the opposite
// order.
func TestOrderOfStopping(t *testing.T) {
	a := newAgent(plugintest.Logger())
	var steps []string
	ended := make(chan struct{})
	for _, name := range []string{"store", "loop", "server"} {
		a.add(component{
			name: name,
			stop: func(context.Context) error {
				steps = append(steps, "stop "+name)
				if name == "store" {
					close(ended)
				}
				return nil
			},
			close: func() { steps = append(steps, "close "+name) },
		})
	}
	a.add(component{name: "task", tasks: []task{func(ctx context.Context) error {
		<-ended
		steps = append(steps, "task ends")
		return nil
	}}})
	ctx, cancel := context.WithCancel(t.Context())
	a.started = cancel
	if err := a.run(ctx); err != nil {
		t.Error(err)
	}
	a.close()
	want := []string{"stop server", "stop loop", "stop store", "task ends", "close server", "close loop", "close store"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps are %q, want %q", steps, want)
	}
}

// A failed task ends all components, and its error comes before errors of stopping.
func TestFailedTaskEndsAgent(t *testing.T) {
	a := newAgent(plugintest.Logger())
	a.started = func() {}
	failed, late := errors.New("no device"), errors.New("too late")
	a.add(component{name: "waiting", tasks: []task{untilEnd(func(ctx context.Context) { <-ctx.Done() })}, stop: func(context.Context) error { return late }})
	a.add(component{name: "failing", tasks: []task{func(context.Context) error { return failed }}})
	if err := a.run(t.Context()); !errors.Is(err, failed) || !errors.Is(err, late) || err.Error() != "no device\ntoo late" {
		t.Errorf("the agent ends with %v", err)
	}
}
