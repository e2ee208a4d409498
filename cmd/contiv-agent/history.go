package main

import (
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/activity"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// activityHistory records events and transactions: in files that survive restarts, unless that is
// disabled, and as counts.
type activityHistory struct {
	component
	files  *history.Recorder // nil if disabled
	counts *activity.Counts
}

func openHistory(o options, log *slog.Logger) *activityHistory {
	h := &activityHistory{counts: activity.New()}
	h.component = component{name: "history", metrics: []prometheus.Collector{h.counts}}
	if o.historySize == 0 {
		return h
	}
	h.files = history.Open(history.Options{
		Dir: o.historyDir, Bytes: int64(o.historySize) << 20, Age: o.historyAge,
		Node: o.nodeName, Version: version.Version, Log: componentLog(log, "history"),
	})
	h.rest = map[string]http.Handler{history.URL: h.files.Handler()}
	h.component.checks = []health.Check{{Name: "history", Look: h.files.Problems}}
	h.close = func() { h.files.Close() }
	return h
}

// transaction records a transaction of the scheduler.
func (h *activityHistory) transaction(c kvscheduler.Committed) {
	h.files.Transaction(c)
	h.counts.Transaction(c)
}

// event records an event of the event loop.
func (h *activityHistory) event(r *controller.EventRecord) {
	h.files.Event(r)
	h.counts.Event(r)
}
