package main

import (
	"context"
	"net/http"
	"runtime"

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
}

// checks are what the agent answers from when it is asked how it is. nodeConfig may be nil.
type checks struct {
	alive, ready, connected, nodeConfig func() error
	warnings                            func(context.Context) []string
}

func (c checks) handle(mux *http.ServeMux, metrics prometheus.Gatherer) {
	probe := func(check func() error, warnings func(context.Context) []string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			health, status := Health{Version: version.Version, Warnings: warnings(r.Context())}, http.StatusOK
			if err := c.connected(); err != nil {
				health.Database = err.Error()
			}
			if c.nodeConfig != nil {
				if err := c.nodeConfig(); err != nil {
					health.NodeConfig = err.Error()
				}
			}
			if err := check(); err != nil {
				health.Error, status = err.Error(), http.StatusServiceUnavailable
			}
			rest.Answer(w, status, health)
		}
	}
	// Whether the agent is alive does not depend on how fast the vswitch answers.
	mux.Handle("GET /liveness", probe(c.alive, func(context.Context) []string { return nil }))
	mux.Handle("GET /readiness", probe(c.ready, c.warnings))
	mux.HandleFunc("GET /info/version", func(w http.ResponseWriter, _ *http.Request) { // for agentctl
		rest.JSON(w, map[string]string{"App": "contiv-agent", "Version": version.Version,
			"GoVersion": runtime.Version(), "OS": runtime.GOOS, "Arch": runtime.GOARCH})
	})
	for _, path := range []string{"/metrics", "/stats"} { // /stats: where interface statistics have always been
		mux.Handle("GET "+path, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
}
