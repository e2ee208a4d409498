package statscollector

import (
	"log/slog"

	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/prometheus/client_golang/prometheus"
)

// Metric is what is counted of an interface. "In" is what the vswitch receives:
// what a pod sends.
type Metric string

// All metrics. A vswitch need not count each of them.
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

// noPod stands for the pod of interfaces that belong to the node.
const noPod = "--"

// Stats is what an interface has counted since it exists.
type Stats struct {
	// Interface is the logical name.
	Interface string
	Counters  map[Metric]uint64
}

// Source reads the counters of all interfaces of the vswitch.
type Source func() ([]Stats, error)

// Pods knows whose interfaces they are.
type Pods interface {
	// PodInterfaces maps logical names of interfaces of the vswitch to pods.
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

// New returns the collector of a node.
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

// Collect implements prometheus.Collector. When the vswitch cannot be read, there
// is nothing to tell, and the other metrics of the agent are not affected.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	all, err := c.source()
	if err != nil {
		c.log.Warn("Interface statistics cannot be read", "error", err)
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
