package access_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/contiv/contiv/ksr/access"
	"github.com/contiv/contiv/test/await"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.log.Bytes(), []byte(text))
}

// A record that gives nobody access is logged once, and is forgotten when it is removed.
func TestProblemsAreForgotten(t *testing.T) {
	c := newServer(t)
	log := &lines{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { access.New(c.root, slog.New(slog.NewTextHandler(log, nil))).Run(ctx, c.root) })
	t.Cleanup(func() { stop(); wg.Wait() })
	logged := func(n int) {
		t.Helper()
		await.That(t, fmt.Sprintf("the record is logged %d times", n), func() error {
			if got := log.count("this record gives nobody access"); got != n {
				return fmt.Errorf("%d times", got)
			}
			return nil
		})
	}
	id := 0
	all := func() { // what was before is done
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
