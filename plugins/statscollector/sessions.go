package statscollector

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// SessionCount is how many connections the vswitch remembers to translate.
type SessionCount struct {
	All uint64
	// TCP is how many of them are of TCP; nil if the vswitch does not say.
	TCP *uint64
}

// SessionsSource counts connections.
type SessionsSource func() (SessionCount, error)

// Sessions tells Prometheus of them.
type Sessions struct {
	source          SessionsSource
	log             *slog.Logger
	all, tcp, other *prometheus.Desc
}

var _ prometheus.Collector = (*Sessions)(nil)

// NewSessions returns the collector of a node.
func NewSessions(nodeName string, source SessionsSource, log *slog.Logger) *Sessions {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, nil, prometheus.Labels{"node": nodeName})
	}
	return &Sessions{
		source: source, log: log,
		all:   desc("natSessions", "Connections to services and host ports that the vswitch remembers."),
		tcp:   desc("tcpNatSessions", "Connections of TCP to services and host ports that the vswitch remembers."),
		other: desc("otherNatSessions", "Connections of other protocols than TCP to services and host ports that the vswitch remembers."),
	}
}

// Describe implements prometheus.Collector.
func (s *Sessions) Describe(out chan<- *prometheus.Desc) {
	out <- s.all
	out <- s.tcp
	out <- s.other
}

// Collect implements prometheus.Collector. When the vswitch cannot be read, there is nothing to
// tell, and the other metrics of the agent are not affected.
func (s *Sessions) Collect(out chan<- prometheus.Metric) {
	n, err := s.source()
	if err != nil {
		s.log.Warn("The number of translated connections cannot be read", "error", err)
		return
	}
	tell := func(desc *prometheus.Desc, value uint64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	tell(s.all, n.All)
	if n.TCP != nil {
		tell(s.tcp, *n.TCP)
		tell(s.other, n.All-*n.TCP)
	}
}
