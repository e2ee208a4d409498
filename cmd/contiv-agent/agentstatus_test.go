package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/store/memory"
	"github.com/contiv/contiv/test/await"
)

// Clients of the vpp-agent find the agent's state in etcd, as it changes.
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
		publishAgentStatus(ctx, "node1", db, check, time.Millisecond, slog.New(slog.DiscardHandler))
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
			return nil
		})
	}
}
