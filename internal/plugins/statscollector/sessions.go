package statscollector

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// SessionCount is the number of connections that the vswitch translates.
type SessionCount struct {
	All uint64
	// TCP is the number of TCP connections among them; nil if unknown.
	TCP *uint64
	// Unremembered counts connections to services with session affinity, since the tables of NAT were
	// made, whose clients the vswitch has no room to remember; nil if unknown.
	Unremembered *uint64
}

// SessionsSource counts connections.
type SessionsSource func() (SessionCount, error)

// Sessions exports the counts to Prometheus.
type Sessions struct {
	source          SessionsSource
	log             *slog.Logger
	all, tcp, other *prometheus.Desc
	unremembered    *prometheus.Desc
}

var _ prometheus.Collector = (*Sessions)(nil)

func NewSessions(nodeName string, source SessionsSource, log *slog.Logger) *Sessions {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, nil, prometheus.Labels{"node": nodeName})
	}
	return &Sessions{
		source: source, log: log,
		all:   desc("natSessions", "Connections to services and host ports that the vswitch remembers."),
		tcp:   desc("tcpNatSessions", "Connections of TCP to services and host ports that the vswitch remembers."),
		other: desc("otherNatSessions", "Connections of other protocols than TCP to services and host ports that the vswitch remembers."),

		unremembered: desc("contiv_service_unremembered_clients_total", "Connections to services with session affinity that are not remembered, because the vswitch's table of clients is full."),
	}
}

// Describe implements prometheus.Collector.
func (s *Sessions) Describe(out chan<- *prometheus.Desc) {
	out <- s.all
	out <- s.tcp
	out <- s.other
	out <- s.unremembered
}

// Collect implements prometheus.Collector. If the vswitch cannot be read, it reports nothing and
// does not disturb other metrics.
func (s *Sessions) Collect(out chan<- prometheus.Metric) {
	n, err := s.source()
	if err != nil {
		s.log.Warn("Reading the number of translated connections failed", "error", err)
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
	if n.Unremembered != nil {
		out <- prometheus.MustNewConstMetric(s.unremembered, prometheus.CounterValue, float64(*n.Unremembered))
	}
}
