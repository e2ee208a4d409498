package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/health/published"
	"github.com/prometheus/client_golang/prometheus"
)

// Verdicts on nodes.
const (
	Healthy  = published.Healthy
	Degraded = published.Degraded
	Broken   = published.Broken
)

// Check looks at one thing.
type Check struct {
	// Name is a label of metrics: lower case, such as "peers".
	Name string
	// Look says what is wrong, a sentence each. It returns soon when ctx ends.
	Look func(ctx context.Context) []string
	// Cluster: what it finds is not about the node, see published.Problem.
	Cluster bool
}

// Problem is something that is wrong.
type Problem = published.Problem

// period is how often a Monitor looks by itself.
const period = 15 * time.Second

// Monitor remembers since when there are which problems.
type Monitor struct {
	checks []Check
	broken func() error

	looking sync.Mutex // one at a time
	mu      sync.Mutex
	last    []Problem
}

// NewMonitor returns a monitor of the checks. ready returns why the agent cannot be relied on.
func NewMonitor(ready func() error, checks ...Check) *Monitor {
	return &Monitor{checks: checks, broken: ready}
}

// Run looks regularly until ctx ends, so that it is known since when a problem exists, and
// metrics tell of it.
func (m *Monitor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		m.Look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

// Look returns what is wrong now.
func (m *Monitor) Look(ctx context.Context) []Problem {
	m.looking.Lock()
	defer m.looking.Unlock()
	known := map[string]time.Time{}
	for _, p := range m.Last() {
		known[p.Check+published.Identity(p.Text)] = p.Since
	}
	now := time.Now()
	found := []Problem{}
	for _, c := range m.checks {
		for _, text := range c.Look(ctx) {
			since, old := known[c.Name+published.Identity(text)]
			if !old {
				since = now
			}
			found = append(found, Problem{Check: c.Name, Text: text, Since: since, Cluster: c.Cluster})
		}
	}
	m.mu.Lock()
	m.last = found
	m.mu.Unlock()
	return found
}

// Last is what Look has returned last.
func (m *Monitor) Last() []Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Verdict on a node with the problems.
func (m *Monitor) Verdict(problems []Problem) string {
	switch {
	case m.broken() != nil:
		return Broken
	case slices.ContainsFunc(problems, func(p Problem) bool { return !p.Cluster }):
		return Degraded
	}
	return Healthy
}

var (
	verdictDesc  = prometheus.NewDesc("contiv_node_verdict", "0 if the node is healthy, 1 if it is degraded, 2 if it is broken.", nil, nil)
	problemsDesc = prometheus.NewDesc("contiv_node_problems", "Problems that a check has found.", []string{"check"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(out chan<- *prometheus.Desc) { out <- verdictDesc; out <- problemsDesc }

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(out chan<- prometheus.Metric) {
	problems := m.Last()
	count := map[string]int{}
	for _, p := range problems {
		count[p.Check]++
	}
	for _, c := range m.checks {
		out <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(count[c.Name]), c.Name)
	}
	verdict := map[string]float64{Healthy: 0, Degraded: 1, Broken: 2}[m.Verdict(problems)]
	out <- prometheus.MustNewConstMetric(verdictDesc, prometheus.GaugeValue, verdict)
}
