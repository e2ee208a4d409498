package statscollector

import (
	"log/slog"

	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a counter of an interface. "In" is received by the vswitch: sent by a pod.
type Metric string

// All metrics. A vswitch may lack some.
const (
	InPackets       Metric = "inPackets"
	OutPackets      Metric = "outPackets"
	InBytes         Metric = "inBytes"
	OutBytes        Metric = "outBytes"
	DropPackets     Metric = "dropPackets"
	PuntPackets     Metric = "puntPackets"
	IPv4Packets     Metric = "ipv4Packets"
	IPv6Packets     Metric = "ipv6Packets"
	InNobufPackets  Metric = "inNobufPackets"
	InMissPackets   Metric = "inMissPackets"
	InErrorPackets  Metric = "inErrorPackets"
	OutErrorPackets Metric = "outErrorPackets"
)

var help = map[Metric]string{
	InPackets:       "Packets received by the vswitch on the interface.",
	OutPackets:      "Packets sent by the vswitch out of the interface.",
	InBytes:         "Bytes received by the vswitch on the interface.",
	OutBytes:        "Bytes sent by the vswitch out of the interface.",
	DropPackets:     "Packets dropped at the interface, in either direction.",
	PuntPackets:     "Packets handed to the host.",
	IPv4Packets:     "IPv4 packets received.",
	IPv6Packets:     "IPv6 packets received.",
	InNobufPackets:  "Packets lost for want of a buffer.",
	InMissPackets:   "Packets that the device received and could not hand over.",
	InErrorPackets:  "Packets received with errors.",
	OutErrorPackets: "Packets that could not be sent.",
}

const noPod = "--"

// Stats holds the counters of an interface since its creation.
type Stats struct {
	// Interface is the logical name.
	Interface string
	Counters  map[Metric]uint64
}

// Source reads the counters of all vswitch interfaces.
type Source func() ([]Stats, error)

// Pods maps interfaces to pods.
type Pods interface {
	// PodInterfaces maps logical names of vswitch interfaces to pods.
	PodInterfaces() map[string]podmanager.PodID
}

// Collector is a prometheus.Collector.
type Collector struct {
	source Source
	pods   Pods
	log    *slog.Logger
	descs  map[Metric]*prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

func New(nodeName string, source Source, pods Pods, log *slog.Logger) *Collector {
	c := &Collector{source: source, pods: pods, log: log, descs: make(map[Metric]*prometheus.Desc)}
	for metric, text := range help {
		c.descs[metric] = prometheus.NewDesc(string(metric), text,
			[]string{"podName", "podNamespace", "interfaceName"}, prometheus.Labels{"node": nodeName})
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		out <- desc
	}
}

// Collect implements prometheus.Collector. If the vswitch cannot be read, it reports nothing and
// does not disturb other metrics.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	all, err := c.source()
	if err != nil {
		c.log.Warn("Reading interface statistics failed", "error", err)
		return
	}
	pods := c.pods.PodInterfaces()
	seen := make(map[string]bool)
	for _, stats := range all {
		if seen[stats.Interface] {
			continue // Prometheus would refuse all of them
		}
		seen[stats.Interface] = true
		name, namespace := noPod, noPod
		if pod, ok := pods[stats.Interface]; ok {
			name, namespace = pod.Name, pod.Namespace
		}
		for metric, value := range stats.Counters {
			if desc := c.descs[metric]; desc != nil {
				out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), name, namespace, stats.Interface)
			}
		}
	}
}
