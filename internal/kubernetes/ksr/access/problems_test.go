package access_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/locked"
)

func TestProblemsAreForgotten(t *testing.T) {
	c := newServer(t)
	log := &locked.Buffer{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { access.New(c.root, slog.New(slog.NewTextHandler(log, nil))).Run(ctx, c.root) })
	t.Cleanup(func() { stop(); wg.Wait() })
	logged := func(n int) {
		t.Helper()
		await.That(t, fmt.Sprintf("the record is logged %d times", n), func() error {
			if got := strings.Count(log.String(), "invalid access record ignored"); got != n {
				return fmt.Errorf("%d times", got)
			}
			return nil
		})
	}
	id := 0
	all := func() {
		t.Helper()
		id++
		c.put(nodes+fmt.Sprint("node", id), "{}")
		c.awaitID(fmt.Sprint("node", id), fmt.Sprint(id))
	}
	const bad = access.ClientPrefix + "bad"
	c.put(bad, "{")
	logged(1)
	all()
	logged(1)
	if err := c.root.Delete(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	all()
	c.put(bad, "{")
	logged(2)
}
