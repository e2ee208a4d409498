package statscollector

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// SessionsSource counts the connections that the vswitch remembers to translate.
type SessionsSource func() (uint64, error)

// Sessions tells Prometheus of them.
type Sessions struct {
	source SessionsSource
	log    *slog.Logger
	desc   *prometheus.Desc
}

var _ prometheus.Collector = (*Sessions)(nil)

// NewSessions returns the collector of a node.
func NewSessions(nodeName string, source SessionsSource, log *slog.Logger) *Sessions {
	return &Sessions{source: source, log: log, desc: prometheus.NewDesc("natSessions",
		"Connections to services and host ports that the vswitch remembers.", nil, prometheus.Labels{"node": nodeName})}
}

// Describe implements prometheus.Collector.
func (s *Sessions) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector. When the vswitch cannot be read, there is nothing to
// tell, and the other metrics of the agent are not affected.
func (s *Sessions) Collect(out chan<- prometheus.Metric) {
	n, err := s.source()
	if err != nil {
		s.log.Warn("The number of translated connections cannot be read", "error", err)
		return
	}
	out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n))
}
