package service

import (
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics replace kube-proxy's metrics that alerts commonly use.
type metrics struct {
	proxy *proxy.Proxy

	programming prometheus.Histogram
	sync        prometheus.Histogram
	syncs       *prometheus.CounterVec
	last        prometheus.Gauge
	translated  prometheus.Gauge
	// Changes before the start of the plugin are not measured.
	since time.Time
}

func newMetrics(node string, services *proxy.Proxy) *metrics {
	labels := prometheus.Labels{"node": node}
	return &metrics{
		proxy: services,
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "contiv_service_network_programming_duration_seconds",
			Help:        "From the change of a pod or service to the end of the transaction that follows it on this node.",
			ConstLabels: labels, Buckets: append([]float64{.01, .025, .05, .1, .25, .5}, prometheus.ExponentialBuckets(1, 2, 9)...),
		}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "contiv_service_sync_duration_seconds", Help: "How long events take that services are rendered for.",
			ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(.001, 2, 15),
		}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "contiv_service_syncs_total", Help: "Events that services were rendered for, by result: ok or error.", ConstLabels: labels,
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "contiv_service_sync_last_timestamp_seconds", Help: "When services were rendered last without an error.", ConstLabels: labels,
		}),
		translated: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "contiv_service_translated", Help: "Services that the vswitch translates.", ConstLabels: labels,
		}),
		since: time.Now(),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.programming, m.sync, m.syncs, m.last, m.translated}
}

// observe measures an event.
func (m *metrics) observe(event controller.Event, record *controller.EventRecord) {
	if m == nil || !m.proxy.Translates() || event.Method() == controller.Update && !m.proxy.RendersAfter(event) || record.Txn == nil {
		return
	}
	if record.ErrorStr != "" {
		m.syncs.WithLabelValues("error").Inc()
		return
	}
	m.syncs.WithLabelValues("ok").Inc()
	m.last.Set(float64(record.ProcessingEnd.UnixMicro()) / 1e6)
	m.sync.Observe(record.ProcessingEnd.Sub(record.ProcessingStart).Seconds())
	m.translated.Set(float64(m.proxy.Services.Len()))
	if trigger, ok := triggerOf(event); ok && trigger.After(m.since) {
		m.programming.Observe(max(record.ProcessingEnd.Sub(trigger), 0).Seconds())
	}
}

func triggerOf(event controller.Event) (time.Time, bool) {
	change, ok := event.(*controller.KubeStateChange)
	if !ok || change.Resource != kubestate.EndpointSlice {
		return time.Time{}, false
	}
	prev, _ := change.PrevValue.(*endpointslice.EndpointSlice)
	next, _ := change.NewValue.(*endpointslice.EndpointSlice)
	if next.GetTriggerTime() == "" || next.GetTriggerTime() == prev.GetTriggerTime() {
		return time.Time{}, false
	}
	trigger, err := time.Parse(time.RFC3339Nano, next.GetTriggerTime())
	return trigger, err == nil
}
