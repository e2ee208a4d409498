package kvscheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector

	txns      *prometheus.CounterVec
	dropped   prometheus.Counter
	wait      *prometheus.HistogramVec
	duration  *prometheus.HistogramVec
	ops       *prometheus.CounterVec
	failures  prometheus.Counter
	sbSeconds prometheus.Counter
}

func newMetrics(s *Scheduler, r prometheus.Registerer) *metrics {
	const namespace, subsystem = "ligato", "kvscheduler"
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 12),
		}, []string{"txn_type"})
	}
	m := &metrics{
		registerer: r,
		txns:       prometheus.NewCounterVec(prometheus.CounterOpts(opts("txn_processed", "Transactions processed.")), []string{"txn_type"}),
		dropped:    prometheus.NewCounter(prometheus.CounterOpts(opts("txn_dropped", "Transactions and notifications rejected by the queue."))),
		wait:       histogram("queue_wait_seconds", "Time between queueing and start of processing."),
		duration:   histogram("txn_duration_seconds", "Time between queueing and end of processing."),
		ops:        prometheus.NewCounterVec(prometheus.CounterOpts(opts("operations", "Recorded operations by type.")), []string{"operation"}),
		failures:   prometheus.NewCounter(prometheus.CounterOpts(opts("operation_failures", "Failed operations."))),
		sbSeconds:  prometheus.NewCounter(prometheus.CounterOpts(opts("southbound_seconds", "Time spent in descriptor callbacks."))),
	}
	m.collectors = []prometheus.Collector{
		m.txns, m.dropped, m.wait, m.duration, m.ops, m.failures, m.sbSeconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("queue_capacity", "Capacity of the transaction queue.")), func() float64 { return queueCapacity }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("queue_length", "Queued transactions.")), func() float64 { return float64(s.queue.length()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("values", "Values in the graph.")), func() float64 { return float64(s.view().Len()) }),
	}
	if r != nil {
		for i, c := range m.collectors {
			if err := r.Register(c); err != nil {
				s.log.Error("metric not registered: use one Registerer per scheduler, or wrap it with a label", "error", err)
				m.collectors[i] = nil
			}
		}
	}
	return m
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		if c != nil {
			m.registerer.Unregister(c)
		}
	}
}

func (m *metrics) processed(j *job, start, stop time.Time) {
	if m.registerer == nil {
		return
	}
	typ := j.typ.String()
	m.txns.WithLabelValues(typ).Inc()
	m.wait.WithLabelValues(typ).Observe(start.Sub(j.queued).Seconds())
	m.duration.WithLabelValues(typ).Observe(stop.Sub(j.queued).Seconds())
}

func (m *metrics) operations(x *exec, southbound time.Duration) {
	if m.registerer == nil {
		return
	}
	m.failures.Add(float64(len(x.errs)))
	m.sbSeconds.Add(southbound.Seconds())
	for i := range x.ops {
		if x.ops[i].Key != "" {
			m.ops.WithLabelValues(x.ops[i].Operation.String()).Inc()
		}
	}
}
