package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	programming prometheus.Histogram
	policies    *prometheus.GaugeVec
	// Changes before the start of the plugin are not measured.
	since time.Time
}

func newMetrics(node string) *metrics {
	labels := prometheus.Labels{"node": node}
	return &metrics{
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "contiv_policy_network_programming_duration_seconds",
			Help:        "Time from a change of a network policy at the API server (recorded in whole seconds) to the end of the transaction on this node.",
			ConstLabels: labels, Buckets: append([]float64{.1, .25, .5}, prometheus.ExponentialBuckets(1, 2, 9)...),
		}),
		policies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "contiv_policies", Help: "Network policies of the cluster, by whether this node enforces them.", ConstLabels: labels,
		}, []string{"realised"}),
		since: time.Now(),
	}
}

func (m *metrics) programmed(changeTime string, at time.Time) {
	changed, err := time.Parse(time.RFC3339, changeTime)
	if err == nil && changed.After(m.since) {
		m.programming.Observe(max(at.Sub(changed), 0).Seconds())
	}
}

func (m *metrics) count(realised, all int) {
	m.policies.WithLabelValues("true").Set(float64(realised))
	m.policies.WithLabelValues("false").Set(float64(all - realised))
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.programming, m.policies}
}

// Describe implements prometheus.Collector.
func (p *Policy) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range p.metrics.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (p *Policy) Collect(ch chan<- prometheus.Metric) {
	for _, c := range p.metrics.all() {
		c.Collect(ch)
	}
}
