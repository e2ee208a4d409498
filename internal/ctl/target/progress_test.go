package target

import (
	"context"
	"slices"
	"testing"
)

func TestProgress(t *testing.T) {
	quick, slow := &Agent{Name: "quick"}, &Agent{Name: "slow"}
	told := make(chan []string, 10)
	ctx := WithProgress(t.Context(), func(waiting []string) { told <- waiting })
	ask := func(agents ...*Agent) {
		Ask(ctx, agents, func(_ context.Context, a *Agent) (int, error) {
			if a == slow {
				if got := <-told; !slices.Equal(got, []string{"slow"}) {
					t.Errorf("waiting for %v", got)
				}
			}
			return 0, nil
		})
	}
	ask(quick, slow)
	if got := <-told; got != nil {
		t.Errorf("at the end: %v", got)
	}
	ask(quick)
	if len(told) > 0 {
		t.Errorf("a quick question: %v", <-told)
	}
}
