package activity

import "github.com/prometheus/client_golang/prometheus"

var (
	addressesUsed = prometheus.NewDesc("contiv_ipam_pod_addresses_used", "Pods of the node with addresses.", nil, nil)
	addressesHere = prometheus.NewDesc("contiv_ipam_pod_addresses", "Capacity of the node's pod subnet, in pods.", nil, nil)
)

// PodAddresses returns how many pods have, and how many could have, addresses. Without known,
// neither is collected. It implements prometheus.Collector.
type PodAddresses func() (used, all uint64, known bool)

var _ prometheus.Collector = PodAddresses(nil)

func (PodAddresses) Describe(out chan<- *prometheus.Desc) {
	out <- addressesUsed
	out <- addressesHere
}

func (p PodAddresses) Collect(out chan<- prometheus.Metric) {
	if used, all, known := p(); known {
		out <- prometheus.MustNewConstMetric(addressesUsed, prometheus.GaugeValue, float64(used))
		out <- prometheus.MustNewConstMetric(addressesHere, prometheus.GaugeValue, float64(all))
	}
}
