package ksr

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Stats holds the counters of a kind since the start.
type Stats struct {
	Adds, Updates, Deletes, Resyncs            int64
	AddErrors, UpdErrors, DelErrors, ResErrors int64
	// ArgErrors counts objects that could not be reflected.
	ArgErrors int64
}

var gauges = []struct {
	name, help string
	value      func(*Stats) int64
}{
	{"adds", "Objects added to the data store.", func(s *Stats) int64 { return s.Adds }},
	{"deletes", "Objects deleted from the data store.", func(s *Stats) int64 { return s.Deletes }},
	{"updates", "Objects updated in the data store.", func(s *Stats) int64 { return s.Updates }},
	{"addErrors", "Failed attempts to add an object.", func(s *Stats) int64 { return s.AddErrors }},
	{"deleteErrors", "Failed attempts to delete an object.", func(s *Stats) int64 { return s.DelErrors }},
	{"updateErrors", "Failed attempts to update an object.", func(s *Stats) int64 { return s.UpdErrors }},
	{"resyncs", "Resyncs of the data store.", func(s *Stats) int64 { return s.Resyncs }},
	{"resyncErrors", "Failed resyncs of the data store.", func(s *Stats) int64 { return s.ResErrors }},
	{"argErrors", "Objects that could not be reflected.", func(s *Stats) int64 { return s.ArgErrors }},
}

type collector struct {
	reflector                 *Reflector
	descs                     []*prometheus.Desc
	leading, synced, reported *prometheus.Desc
}

func newCollector(node string, r *Reflector) *collector {
	labels := prometheus.Labels{"node": node}
	c := &collector{
		reflector: r,
		leading:   prometheus.NewDesc("leading", "1 while this instance writes to the data store.", nil, labels),
		synced:    prometheus.NewDesc("synced", "1 while the data store matches the source.", nil, labels),
		reported:  prometheus.NewDesc("objects", "Objects that the data store should hold.", nil, labels),
	}
	for _, g := range gauges {
		c.descs = append(c.descs, prometheus.NewDesc(g.name, g.help, []string{"reflectorType"}, labels))
	}
	return c
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range append([]*prometheus.Desc{c.leading, c.synced, c.reported}, c.descs...) {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	for kind, s := range c.reflector.Stats() {
		for i, g := range gauges {
			out <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, float64(g.value(&s)), string(kind))
		}
	}
	status := c.reflector.Status()
	objects, _ := c.reflector.wanted.count()
	out <- prometheus.MustNewConstMetric(c.leading, prometheus.GaugeValue, oneIf(status.Role == Leader))
	out <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, oneIf(status.Synced))
	out <- prometheus.MustNewConstMetric(c.reported, prometheus.GaugeValue, float64(objects))
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
