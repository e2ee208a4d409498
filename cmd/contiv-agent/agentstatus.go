package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/version"
)

// agentStatusKey is where clients of the vpp-agent look, behind the prefix of a node, for
// how the agent is.
const agentStatusKey = "check/status/v1/agent"

// agentStatusPeriod is how often the agent is asked how it is.
const agentStatusPeriod = 5 * time.Second

// AgentStatus is the JSON of the message of this name of the vpp-agent. Times are Unix
// seconds.
type AgentStatus struct {
	BuildVersion string `json:"build_version"`
	State        string `json:"state"` // OK, ERROR
	StartTime    int64  `json:"start_time,string"`
	LastChange   int64  `json:"last_change,string"`
	LastUpdate   int64  `json:"last_update,string"`
}

// publishAgentStatus writes to etcd how the agent is, when that changes, until ctx ends.
func publishAgentStatus(ctx context.Context, node string, etcd store.Broker, check func() error, period time.Duration, log *slog.Logger) {
	published, failing := "", false
	for {
		state := "OK"
		if check() != nil {
			state = "ERROR"
		}
		if state != published {
			now := time.Now().Unix()
			data, err := json.Marshal(AgentStatus{version.Version, state, started.Unix(), now, now})
			if err == nil {
				err = etcd.Put(ctx, models.NodePrefix(node)+agentStatusKey, data)
			}
			switch {
			case err == nil:
				published = state
			case !failing && ctx.Err() == nil:
				log.Warn("The agent's status cannot be published in etcd now", "error", err)
			}
			failing = err != nil
		}
		select {
		case <-time.After(period):
		case <-ctx.Done():
			return
		}
	}
}
