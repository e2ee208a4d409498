// Package activity counts an agent's events, drift repairs and CNI requests for Prometheus.
package activity

import (
	"runtime"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// Counts are the counters of one agent. It implements prometheus.Collector.
type Counts struct {
	events                  *prometheus.CounterVec
	eventDuration           *prometheus.HistogramVec
	eventWait               prometheus.Histogram
	repairs, repairedValues prometheus.Counter
	requests                *prometheus.CounterVec
	requestDuration         *prometheus.HistogramVec
	all                     []prometheus.Collector
}

var _ prometheus.Collector = (*Counts)(nil)

// New returns counters that are 0.
func New() *Counts {
	buckets := prometheus.ExponentialBuckets(0.0001, 4, 10)
	c := &Counts{
		events:          prometheus.NewCounterVec(prometheus.CounterOpts{Name: "contiv_events_total", Help: "Processed events, by result: ok or error."}, []string{"event", "result"}),
		eventDuration:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "contiv_event_duration_seconds", Help: "Processing time of events, including their transactions.", Buckets: buckets}, []string{"event"}),
		eventWait:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "contiv_event_wait_seconds", Help: "Queueing time of events.", Buckets: buckets}),
		repairs:         prometheus.NewCounter(prometheus.CounterOpts{Name: "contiv_drift_repairs_total", Help: "Transactions that repaired drift."}),
		repairedValues:  prometheus.NewCounter(prometheus.CounterOpts{Name: "contiv_drift_repaired_values_total", Help: "Values repaired because of drift."}),
		requests:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "contiv_cni_requests_total", Help: "Requests by contiv-cni, by result: ok or error."}, []string{"command", "result"}),
		requestDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "contiv_cni_request_duration_seconds", Help: "Processing time of contiv-cni requests in the agent.", Buckets: buckets}, []string{"command"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "contiv_build_info", Help: "Always 1; the labels are the versions of Contiv and Go.", ConstLabels: prometheus.Labels{"version": version.Version, "goversion": runtime.Version()}})
	build.Set(1)
	c.all = []prometheus.Collector{c.events, c.eventDuration, c.eventWait, c.repairs, c.repairedValues, c.requests, c.requestDuration, build}
	return c
}

// Event counts a processed event.
func (c *Counts) Event(r *controller.EventRecord) {
	c.events.WithLabelValues(r.Name, result(r.ErrorStr != "")).Inc()
	c.eventDuration.WithLabelValues(r.Name).Observe(r.ProcessingEnd.Sub(r.ProcessingStart).Seconds())
	c.eventWait.Observe(r.ProcessingStart.Sub(r.Enqueued).Seconds())
}

// Transaction counts a transaction if it is a drift repair.
func (c *Counts) Transaction(done kvscheduler.Committed) {
	if !strings.HasPrefix(done.Txn.Description, health.DriftPrefix) {
		return
	}
	keys := map[string]bool{}
	for _, op := range done.Txn.Executed {
		if !op.IsDerived && !op.NOOP && op.NewErr == nil {
			keys[op.Key] = true
		}
	}
	if len(keys) > 0 {
		c.repairs.Inc()
		c.repairedValues.Add(float64(len(keys)))
	}
}

// CNI counts a request, such as ADD.
func (c *Counts) CNI(command string, took time.Duration, failed bool) {
	c.requests.WithLabelValues(command, result(failed)).Inc()
	c.requestDuration.WithLabelValues(command).Observe(took.Seconds())
}

func result(failed bool) string {
	if failed {
		return "error"
	}
	return "ok"
}

func (c *Counts) Describe(out chan<- *prometheus.Desc) {
	for _, part := range c.all {
		part.Describe(out)
	}
}

func (c *Counts) Collect(out chan<- prometheus.Metric) {
	for _, part := range c.all {
		part.Collect(out)
	}
}
