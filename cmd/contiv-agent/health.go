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

// Health is the answer to /liveness and /readiness.
type Health struct {
	Version string
	// Error is why the agent is not alive or not ready.
	Error string `json:",omitempty"`
	// Database says why etcd is not reached; the agent works without it.
	Database string `json:",omitempty"`
	// NodeConfig says why the NodeConfig in etcd is not in force; the agent works
	// with what was before.
	NodeConfig string `json:",omitempty"`
	// Warnings say what may keep the vswitch from working some day.
	Warnings []string `json:",omitempty"`
	// Verdict on the node, and Problems that led to it; for ?verbose. Notes are what the node cannot do
	// of what is asked of it, whoever looks after it; they are no problems.
	Verdict  string           `json:",omitempty"`
	Problems []health.Problem `json:",omitempty"`
	Notes    []string         `json:",omitempty"`

	// The same as the vpp-agent tells it: 0 INIT, 1 OK, 2 ERROR; times are Unix seconds.
	BuildVersion string `json:"build_version"`
	State        int    `json:"state"`
	StartTime    int64  `json:"start_time"`
	LastChange   int64  `json:"last_change"`
	LastUpdate   int64  `json:"last_update"`
	// PluginStatus is of the parts that are asked, by their names.
	PluginStatus map[string]PluginStatus
}

// PluginStatus is how a part of the agent is, as the vpp-agent tells it.
type PluginStatus struct {
	State int    `json:"state"`
	Error string `json:"error,omitempty"`
}

// States of the vpp-agent.
const (
	stateOK    = 1
	stateError = 2
)

// started is when this process began to be asked.
var started = time.Now()

// changes remembers since when the answer of a check has been what it is.
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

// checks are what the agent answers from when it is asked how it is. nodeConfig may be nil.
type checks struct {
	alive, ready, connected, nodeConfig func() error
	// full says that etcd refuses writes; nil: there is none.
	full func(context.Context) error
	// limits says whether etcd limits its users, and which it refuses; nil: there is none.
	limits   func(context.Context) (unlimited bool, refused string)
	warnings func(context.Context) []string
	// notes may be nil.
	notes func() []string
	// health is nil in tests of the others.
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
						answer.Notes = append(answer.Notes, "etcd does not limit its users: a node's certificate suffices to fill it. contiv-etcd with --users does")
					}
				}
			}
			answer.PluginStatus[name] = statusOf(err)
			answer.State = answer.PluginStatus[name].State
			answer.LastChange = last.note(answer.State).Unix()
			rest.Answer(w, status, answer)
		}
	}
	// Whether the agent is alive does not depend on how fast the vswitch answers.
	mux.Handle("GET /liveness", probe("controller", c.alive, func(context.Context) []string { return nil }))
	mux.Handle("GET /readiness", probe("agent", c.ready, c.warnings))
	mux.HandleFunc("GET /info/version", func(w http.ResponseWriter, _ *http.Request) { // for agentctl
		rest.JSON(w, map[string]string{"App": "contiv-agent", "Version": version.Version,
			"GoVersion": runtime.Version(), "OS": runtime.GOOS, "Arch": runtime.GOARCH})
	})
	for _, path := range []string{"/metrics", "/stats"} { // /stats: where interface statistics have always been
		mux.Handle("GET "+path, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
}
