package activity

import "github.com/prometheus/client_golang/prometheus"

var (
	addressesUsed = prometheus.NewDesc("contiv_ipam_pod_addresses_used", "Pods of the node that have addresses.", nil, nil)
	addressesHere = prometheus.NewDesc("contiv_ipam_pod_addresses", "Pods that the node's pod subnet has addresses for.", nil, nil)
)

// PodAddresses is a prometheus.Collector: a function that returns how many pods have, and how many
// could have addresses; without known, neither is collected.
type PodAddresses func() (used, all uint64, known bool)

var _ prometheus.Collector = PodAddresses(nil)

// Describe implements prometheus.Collector.
func (PodAddresses) Describe(out chan<- *prometheus.Desc) {
	out <- addressesUsed
	out <- addressesHere
}

// Collect implements prometheus.Collector.
func (p PodAddresses) Collect(out chan<- prometheus.Metric) {
	if used, all, known := p(); known {
		out <- prometheus.MustNewConstMetric(addressesUsed, prometheus.GaugeValue, float64(used))
		out <- prometheus.MustNewConstMetric(addressesHere, prometheus.GaugeValue, float64(all))
	}
}
