package ksr

import (
	"net/http"
	"time"

	"github.com/contiv/contiv/internal/lib/metrics"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Report is the answer of /liveness and /readiness.
type Report struct {
	// State is "OK" or "not ready".
	State     string      `json:"state"`
	Version   string      `json:"version"`
	StartTime time.Time   `json:"startTime"`
	Store     StoreStatus `json:"store"`
	// Objects is the number of reported objects. SourceComplete as in Changes.
	Objects        int  `json:"objects"`
	SourceComplete bool `json:"sourceComplete"`
	// SourceProblems lists unreadable or invalid objects, and objects that cannot be reflected.
	SourceProblems []string `json:"sourceProblems,omitempty"`
}

// Metrics returns the metrics of the reflectors, with the label node, and of the process.
func (r *Reflector) Metrics() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(r.opts.Instance, r), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return metrics.Conventional(registry)
}

// Handler serves
//
//	/stats      Prometheus metrics of the reflectors, with the label node
//	/liveness   200 while the program works
//	/readiness  503 until the store has contained the reported objects once, or
//	            until this instance is a standby; then 200
//
// They do not fail if the store is unreachable.
func (r *Reflector) Handler() http.Handler {
	report := func() Report {
		out := Report{State: "OK", Version: r.opts.Version, StartTime: r.started, Store: r.Status(), SourceProblems: r.problems()}
		out.Objects, out.SourceComplete = r.wanted.count()
		return out
	}
	mux := http.NewServeMux()
	mux.Handle("GET /stats", promhttp.HandlerFor(r.Metrics(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /liveness", func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, report()) })
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
		body, status := report(), http.StatusOK
		if !body.Store.EverSynced && !body.Store.EverStandby {
			body.State, status = "not ready", http.StatusServiceUnavailable
		}
		rest.Answer(w, status, body)
	})
	return mux
}
