// Package stats reads VPP's shared memory of counters: interface counters, and VPP's own as
// Prometheus metrics.
package stats
