// Package readiness answers the probes of the agent, and publishes its state in the formats of the
// vpp-agent:
//
//	checks, health.Monitor ─┬─> REST: /liveness, /readiness, /info/version
//	                        └─> etcd: check/status/v1/
package readiness

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/lib/version"
)

// Health is the response to /liveness and /readiness.
type Health struct {
	Version string
	// Error is the reason why the agent is not alive or not ready.
	Error string `json:",omitempty"`
	// Database is the reason why etcd is unreachable. The agent works without it.
	Database string `json:",omitempty"`
	// NodeConfig is the reason why the NodeConfig in etcd is not in force. The previous one stays
	// in force.
	NodeConfig string `json:",omitempty"`
	// Warnings lists possible future failures of the vswitch.
	Warnings []string `json:",omitempty"`
	// Verdict on the node and the Problems that led to it, for ?verbose. Notes lists requested
	// features that the node does not support; they do not affect the verdict.
	Verdict  string           `json:",omitempty"`
	Problems []health.Problem `json:",omitempty"`
	Notes    []string         `json:",omitempty"`

	// The state in the vpp-agent's format: 0 INIT, 1 OK, 2 ERROR; times are Unix seconds.
	BuildVersion string `json:"build_version"`
	State        int    `json:"state"`
	StartTime    int64  `json:"start_time"`
	LastChange   int64  `json:"last_change"`
	LastUpdate   int64  `json:"last_update"`
	// PluginStatus holds the states of the agent's parts by name.
	PluginStatus map[string]PluginStatus
}

// PluginStatus is the state of a part of the agent in the vpp-agent's format.
type PluginStatus struct {
	State int    `json:"state"`
	Error string `json:"error,omitempty"`
}

// States of the vpp-agent.
const (
	stateOK    = 1
	stateError = 2
)

// started is the start time of this process.
var started = time.Now()

// changes records when the result of each check last changed.
type changes struct {
	mu    sync.Mutex
	state int
	since time.Time
}

func (c *changes) note(state int) (since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != state {
		c.state, c.since = state, time.Now()
	}
	return c.since
}

func statusOf(err error) PluginStatus {
	if err != nil {
		return PluginStatus{State: stateError, Error: err.Error()}
	}
	return PluginStatus{State: stateOK}
}

// Sources are the sources of the agent's responses to probes.
type Sources struct {
	// Alive and Ready return why the agent is not alive or not ready, Connected why etcd is unreachable.
	Alive, Ready, Connected func() error
	// NodeConfig returns why the NodeConfig in etcd is not in force. It may be nil.
	NodeConfig func() error
	// Unlimited reports whether etcd does not limit its users. nil: no etcd.
	Unlimited func(context.Context) bool
	// Warnings lists possible future failures.
	Warnings func(context.Context) []string
	// Notes lists requested features that the node does not support. It may be nil.
	Notes func() []string
	// Health is the monitor of the node.
	Health *health.Monitor
}

// Handlers returns the REST handlers of the probes. Liveness does not ask the vswitch, which may answer
// slowly.
func (c Sources) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /liveness":     &probe{Sources: c, part: "controller", check: c.Alive, last: changes{since: started}},
		"GET /readiness":    &probe{Sources: c, part: "agent", check: c.Ready, warnings: c.Warnings, verbose: true, last: changes{since: started}},
		"GET /info/version": http.HandlerFunc(answerVersion),
	}
}

// answerVersion answers agentctl.
func answerVersion(w http.ResponseWriter, _ *http.Request) {
	rest.JSON(w, map[string]string{"App": "contiv-agent", "Version": version.Version,
		"GoVersion": runtime.Version(), "OS": runtime.GOOS, "Arch": runtime.GOARCH})
}

// probe answers one kind of probe.
type probe struct {
	Sources
	// part of the agent that check checks.
	part  string
	check func() error
	// warnings may be nil.
	warnings func(context.Context) []string
	// verbose: the answer to ?verbose has the verdict on the node.
	verbose bool
	last    changes
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now().Unix()
	answer, status := Health{Version: version.Version, BuildVersion: version.Version, StartTime: started.Unix(), LastUpdate: now}, http.StatusOK
	if p.warnings != nil {
		answer.Warnings = p.warnings(r.Context())
	}
	connected := p.Connected()
	if connected != nil {
		answer.Database = connected.Error()
	}
	if p.NodeConfig != nil {
		if err := p.NodeConfig(); err != nil {
			answer.NodeConfig = err.Error()
		}
	}
	err := p.check()
	if err != nil {
		answer.Error, status = err.Error(), http.StatusServiceUnavailable
	}
	if p.verbose && p.Health != nil && r.URL.Query().Has("verbose") {
		p.addVerdict(r.Context(), &answer)
	}
	answer.PluginStatus = map[string]PluginStatus{"etcd": statusOf(connected), p.part: statusOf(err)}
	answer.State = answer.PluginStatus[p.part].State
	answer.LastChange = p.last.note(answer.State).Unix()
	rest.Answer(w, status, answer)
}

// addVerdict adds the verdict on the node, with its reasons.
func (c Sources) addVerdict(ctx context.Context, answer *Health) {
	answer.Problems = c.Health.Look(ctx)
	answer.Verdict = c.Health.Verdict(answer.Problems)
	if c.Notes != nil {
		answer.Notes = c.Notes()
	}
	if c.Unlimited != nil && c.Unlimited(ctx) {
		answer.Notes = append(answer.Notes, "etcd does not limit its users, so any node can fill it: run contiv-etcd with --users")
	}
}
