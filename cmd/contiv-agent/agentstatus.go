package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/version"
)

// agentStatusPrefix is where clients of the vpp-agent look, behind the prefix of a node, for
// how the agent ("agent") and its parts ("plugin/…") are.
const agentStatusPrefix = "check/status/v1/"

const (
	// agentStatusPeriod is how often the agent is asked how it is.
	agentStatusPeriod = 5 * time.Second
	// agentStatusRewrite is after how long a status is written that did not change. Its last_update
	// shows which ones are of agents that are gone.
	agentStatusRewrite = 10 * time.Second
)

// AgentStatus is the JSON of the message of this name of the vpp-agent. Times are Unix
// seconds.
type AgentStatus struct {
	BuildVersion string            `json:"build_version"`
	State        string            `json:"state"` // OK, ERROR
	StartTime    int64             `json:"start_time,string"`
	LastChange   int64             `json:"last_change,string"`
	LastUpdate   int64             `json:"last_update,string"`
	Plugins      []AgentPartStatus `json:"plugins,omitempty"`
}

// AgentPartStatus is the JSON of the vpp-agent's message PluginStatus.
type AgentPartStatus struct {
	Name       string `json:"name"`
	State      string `json:"state"`
	LastChange int64  `json:"last_change,string"`
	LastUpdate int64  `json:"last_update,string"`
	Error      string `json:"error,omitempty"`
}

// agentStatusPublisher writes to etcd how the agent is.
type agentStatusPublisher struct {
	node string
	etcd store.Broker
	// ready is about the agent, parts are about parts of it, by their names.
	ready           func() error
	parts           map[string]func() error
	period, rewrite time.Duration
	log             *slog.Logger
}

// publisher publishes what REST answers, in etcd.
func (c checks) publisher(node string, etcd store.Broker, log *slog.Logger) agentStatusPublisher {
	return agentStatusPublisher{
		node: node, etcd: etcd, ready: c.ready, parts: map[string]func() error{"controller": c.alive, "etcd": c.connected},
		period: agentStatusPeriod, rewrite: agentStatusRewrite, log: log,
	}
}

// run publishes until ctx ends: at once what changes, and all again after rewrite.
func (p agentStatusPublisher) run(ctx context.Context) {
	var all AgentStatus
	var written time.Time
	failing := false
	for {
		next := p.look(all)
		if !next.same(all) || time.Since(written) >= p.rewrite {
			err := p.write(ctx, next)
			if err == nil {
				all, written = next, time.Now()
			} else if !failing && ctx.Err() == nil {
				p.log.Warn("The agent's status cannot be published in etcd now", "error", err)
			}
			failing = err != nil
		}
		select {
		case <-time.After(p.period):
		case <-ctx.Done():
			return
		}
	}
}

// look asks; what has the state that it had before has it since then.
func (p agentStatusPublisher) look(before AgentStatus) AgentStatus {
	now := time.Now().Unix()
	s := AgentStatus{BuildVersion: version.Version, StartTime: started.Unix(), State: stateName(p.ready()), LastChange: now, LastUpdate: now}
	if s.State == before.State {
		s.LastChange = before.LastChange
	}
	for i, name := range slices.Sorted(maps.Keys(p.parts)) {
		err := p.parts[name]()
		part := AgentPartStatus{Name: name, State: stateName(err), LastChange: now, LastUpdate: now}
		if err != nil {
			part.Error = err.Error()
		}
		if i < len(before.Plugins) && before.Plugins[i].State == part.State {
			part.LastChange = before.Plugins[i].LastChange
		}
		s.Plugins = append(s.Plugins, part)
	}
	return s
}

func stateName(err error) string {
	if err != nil {
		return "ERROR"
	}
	return "OK"
}

// same reports whether nothing but times differs.
func (s AgentStatus) same(other AgentStatus) bool {
	return s.State == other.State && slices.EqualFunc(s.Plugins, other.Plugins, func(a, b AgentPartStatus) bool {
		return a.Name == b.Name && a.State == b.State && a.Error == b.Error
	})
}

func (p agentStatusPublisher) write(ctx context.Context, status AgentStatus) error {
	put := func(key string, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return p.etcd.Put(ctx, models.NodePrefix(p.node)+agentStatusPrefix+key, data)
	}
	for _, part := range status.Plugins {
		if err := put("plugin/"+part.Name, part); err != nil {
			return err
		}
	}
	return put("agent", status)
}
