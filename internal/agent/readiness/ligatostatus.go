package readiness

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/models"
)

// agentStatusPrefix is the part of the key, after the node's prefix, where clients of the vpp-agent
// look for the states of the agent ("agent") and its parts ("plugin/…").
const agentStatusPrefix = "check/status/v1/"

const (
	// agentStatusPeriod is the interval of checks.
	agentStatusPeriod = 5 * time.Second
	// agentStatusRewrite is the interval in which an unchanged status is written again. An old
	// last_update shows that the agent is gone.
	agentStatusRewrite = 10 * time.Second
)

// AgentStatus has the JSON form of the vpp-agent's message. Times are Unix seconds.
type AgentStatus struct {
	BuildVersion string            `json:"build_version"`
	State        string            `json:"state"` // OK, ERROR
	StartTime    int64             `json:"start_time,string"`
	LastChange   int64             `json:"last_change,string"`
	LastUpdate   int64             `json:"last_update,string"`
	Plugins      []AgentPartStatus `json:"plugins,omitempty"`
}

// AgentPartStatus has the JSON form of the vpp-agent's PluginStatus.
type AgentPartStatus struct {
	Name       string `json:"name"`
	State      string `json:"state"`
	LastChange int64  `json:"last_change,string"`
	LastUpdate int64  `json:"last_update,string"`
	Error      string `json:"error,omitempty"`
}

// Publisher writes the agent's state to etcd.
type Publisher struct {
	node string
	etcd store.Broker
	// ready checks the agent; parts check its parts, by name.
	ready           func() error
	parts           map[string]func() error
	period, rewrite time.Duration
	log             *slog.Logger
}

// Publisher returns a publisher in etcd of the same state as REST.
func (c Sources) Publisher(node string, etcd store.Broker, log *slog.Logger) Publisher {
	return Publisher{
		node: node, etcd: etcd, ready: c.Ready, parts: map[string]func() error{"controller": c.Alive, "etcd": c.Connected},
		period: agentStatusPeriod, rewrite: agentStatusRewrite, log: log,
	}
}

// Run publishes until ctx ends: changes at once, everything after rewrite.
func (p Publisher) Run(ctx context.Context) {
	var all AgentStatus
	var written time.Time
	failing := false
	for {
		next := p.next(all)
		if !next.same(all) || time.Since(written) >= p.rewrite {
			err := p.write(ctx, next)
			if err == nil {
				all, written = next, time.Now()
			} else if !failing && ctx.Err() == nil {
				p.log.Warn("Publishing the agent's status in etcd failed", "error", err)
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

// next runs the checks. An unchanged state keeps the time of its last change.
func (p Publisher) next(before AgentStatus) AgentStatus {
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

// same reports whether only times differ.
func (s AgentStatus) same(other AgentStatus) bool {
	return s.State == other.State && slices.EqualFunc(s.Plugins, other.Plugins, func(a, b AgentPartStatus) bool {
		return a.Name == b.Name && a.State == b.State && a.Error == b.Error
	})
}

func (p Publisher) write(ctx context.Context, status AgentStatus) error {
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
