package main

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/version"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

// checks holds the sources of the agent's health responses. nodeConfig may be nil.
type checks struct {
	alive, ready, connected, nodeConfig func() error
	// full says that etcd refuses writes; nil: there is none.
	full func(context.Context) error
	// limits says whether etcd limits its users, and which it refuses; nil: there is none.
	limits   func(context.Context) (unlimited bool, refused string)
	warnings func(context.Context) []string
	// notes may be nil.
	notes func() []string
	// health is nil in tests of the other fields.
	health *health.Monitor
}

func (c checks) handle(mux *http.ServeMux, metrics prometheus.Gatherer) {
	probe := func(name string, check func() error, warnings func(context.Context) []string) http.HandlerFunc {
		last := &changes{since: started}
		return func(w http.ResponseWriter, r *http.Request) {
			answer, status := Health{Version: version.Version, Warnings: warnings(r.Context())}, http.StatusOK
			answer.BuildVersion, answer.StartTime, answer.LastUpdate = version.Version, started.Unix(), time.Now().Unix()
			answer.PluginStatus = map[string]PluginStatus{}
			connected := c.connected()
			if connected != nil {
				answer.Database = connected.Error()
			}
			answer.PluginStatus["etcd"] = statusOf(connected)
			if c.nodeConfig != nil {
				if err := c.nodeConfig(); err != nil {
					answer.NodeConfig = err.Error()
				}
			}
			err := check()
			if err != nil {
				answer.Error, status = err.Error(), http.StatusServiceUnavailable
			}
			if c.health != nil && name == "agent" && r.URL.Query().Has("verbose") {
				answer.Problems = c.health.Look(r.Context())
				answer.Verdict = c.health.Verdict(answer.Problems)
				if c.notes != nil {
					answer.Notes = c.notes()
				}
				if c.limits != nil {
					if unlimited, _ := c.limits(r.Context()); unlimited {
						answer.Notes = append(answer.Notes, "etcd does not limit its users, so any node can fill it: run contiv-etcd with --users")
					}
				}
			}
			answer.PluginStatus[name] = statusOf(err)
			answer.State = answer.PluginStatus[name].State
			answer.LastChange = last.note(answer.State).Unix()
			rest.Answer(w, status, answer)
		}
	}
	// Liveness does not ask the vswitch, which may answer slowly.
	mux.Handle("GET /liveness", probe("controller", c.alive, func(context.Context) []string { return nil }))
	mux.Handle("GET /readiness", probe("agent", c.ready, c.warnings))
	mux.HandleFunc("GET /info/version", func(w http.ResponseWriter, _ *http.Request) { // for agentctl
		rest.JSON(w, map[string]string{"App": "contiv-agent", "Version": version.Version,
			"GoVersion": runtime.Version(), "OS": runtime.GOOS, "Arch": runtime.GOARCH})
	})
	for _, path := range []string{"/metrics", "/stats"} { // /stats is the path of the interface statistics in earlier versions
		mux.Handle("GET "+path, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
}
