package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/prometheus/client_golang/prometheus"
)

// Verdicts on nodes.
const (
	Healthy  = published.Healthy
	Degraded = published.Degraded
	Broken   = published.Broken
)

// Check checks one subject.
type Check struct {
	// Name is a label of metrics: lower case, such as "peers".
	Name string
	// Look returns the problems, one sentence each. It returns soon after ctx ends.
	Look func(ctx context.Context) []string
	// Cluster: its problems concern the whole cluster, see published.Problem.
	Cluster bool
}

// Problem is a problem found by a check.
type Problem = published.Problem

// period is the time between two rounds of checks in Run.
const period = 15 * time.Second

// Monitor runs checks and records since when each problem has existed.
type Monitor struct {
	checks []Check
	broken func() error

	looking sync.Mutex // one at a time
	mu      sync.Mutex
	last    []Problem
}

// NewMonitor returns a monitor of the checks. ready returns an error if the agent is broken.
func NewMonitor(ready func() error, checks ...Check) *Monitor {
	return &Monitor{checks: checks, broken: ready}
}

// Run runs the checks periodically until ctx ends, for metrics and for the start times of problems.
func (m *Monitor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		m.Look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

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

// Last returns the result of the last Look.
func (m *Monitor) Last() []Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Verdict returns the verdict on a node with the given problems.
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
	verdictDesc  = prometheus.NewDesc("contiv_node_verdict", "Health of the node: 0 healthy, 1 degraded, 2 broken.", nil, nil)
	problemsDesc = prometheus.NewDesc("contiv_node_problems", "Problems found by a check.", []string{"check"}, nil)
)

func (m *Monitor) Describe(out chan<- *prometheus.Desc) { out <- verdictDesc; out <- problemsDesc }

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
