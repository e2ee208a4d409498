// Package metrics publishes metrics with names of earlier systems (inPackets, ligato_kvscheduler_…)
// a second time, under names that follow the Prometheus conventions.
//
//	registry ──> Conventional ──> /metrics: inPackets and contiv_interface_receive_packets_total
package metrics
