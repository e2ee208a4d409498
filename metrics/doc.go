// Package metrics gives metrics whose names are those of the systems that came before (inPackets,
// ligato_kvscheduler_…) a second name by the conventions of Prometheus. Both names stay.
//
//	registry ──> Conventional ──> /metrics: inPackets and contiv_interface_receive_packets_total
package metrics
