// Package stats reads the memory in which VPP counts: what interfaces have counted, and VPP's
// own figures as Prometheus metrics.
package stats
