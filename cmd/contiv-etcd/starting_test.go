package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/test/await"
)

func TestAskedWhileStarting(t *testing.T) {
	m := newMembers(t, 3)
	opts := m.options[0]
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- etcdserver.Serve(ctx, opts, func(*etcdserver.Server) {}) }()
	defer stop()
	for _, order := range []struct {
		name, answer string
		ask          func() error
	}{
		{"snapshot", "may be waiting for other members", func() error { return etcdserver.AskSnapshot(t.Context(), opts.DataDir, io.Discard) }},
		{"restore", "cannot be restored alone", func() error { return etcdserver.AskRestore(t.Context(), opts.DataDir, strings.NewReader("")) }},
	} {
		await.That(t, order.name+" is answered with the state", func() error {
			err := order.ask()
			if err == nil {
				t.Fatalf("%s: done by a member that is starting", order.name)
			}
			if strings.Contains(err.Error(), order.answer) {
				return nil
			}
			return err
		})
	}
	stop()
	select {
	case <-ended:
	case <-time.After(await.Patience):
		t.Fatal("a member that waits for others does not stop")
	}
}
