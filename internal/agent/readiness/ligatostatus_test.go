package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/test/await"
)

// Clients of the vpp-agent find the agent's current state in etcd.
func TestAgentStatusInEtcd(t *testing.T) {
	db := memory.New()
	var broken atomic.Bool
	check := func() error {
		if broken.Load() {
			return errors.New("broken")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		Publisher{node: "node1", etcd: db, ready: check, parts: map[string]func() error{"controller": check, "etcd": func() error { return nil }},
			period: time.Millisecond, rewrite: time.Hour, log: slog.New(slog.DiscardHandler)}.Run(ctx)
	})
	defer group.Wait()
	defer cancel()
	for _, want := range []string{"OK", "ERROR", "OK"} {
		broken.Store(want == "ERROR")
		await.That(t, "the state is "+want, func() error {
			kv, found, err := db.Get(ctx, "/vnf-agent/node1/check/status/v1/agent")
			if err != nil || !found {
				return errors.New("no status")
			}
			var status AgentStatus
			if err := json.Unmarshal(kv.Value, &status); err != nil {
				return err
			}
			if status.State != want || status.StartTime == 0 || status.LastChange < status.StartTime {
				return errors.New(string(kv.Value))
			}
			kv, _, err = db.Get(ctx, "/vnf-agent/node1/check/status/v1/plugin/controller")
			if err != nil {
				return err
			}
			var part AgentPartStatus
			if err := json.Unmarshal(kv.Value, &part); err != nil {
				return err
			}
			if part.State != want || part.Name != "controller" || (part.Error == "broken") != (want == "ERROR") || part.LastChange < status.StartTime {
				return errors.New(string(kv.Value))
			}
			if len(status.Plugins) != 2 || status.Plugins[0] != part || status.Plugins[1].State != "OK" {
				return errors.New(string(kv.Value))
			}
			return nil
		})
	}
}

// An unchanged status is written again, so that its last_update shows that the agent is alive.
func TestAgentStatusIsRewritten(t *testing.T) {
	db := memory.New()
	changes, err := db.Watch(t.Context(), 0, "/vnf-agent/node1/check/status/v1/agent")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		Publisher{node: "node1", etcd: db, ready: func() error { return nil }, period: time.Millisecond, rewrite: 5 * time.Millisecond,
			log: slog.New(slog.DiscardHandler)}.Run(ctx)
	})
	for range 3 {
		<-changes
	}
	cancel()
	group.Wait()
}
