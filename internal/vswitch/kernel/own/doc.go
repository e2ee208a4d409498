// Package own determines which objects of the kernel are ours, and which northbound values they
// belong to.
//
//	names.go, tunnel.go   aliases (the mark of ownership) and names of devices
//	numbers.go            protocol numbers and routing tables
//	devices.go, ports.go  the device behind a logical name
//	registry.go           the northbound values that exist
//	host.go               all of these for one network namespace, with the connections
//
// The registry and the device cache save look-ups and translate events into keys. Create and List
// fill them; correctness does not depend on their contents. An index in the cache may be stale. The
// kernel never reuses an index, so it answers ENODEV, and [Host.WithDevice] looks the device up
// again.
//
// Subsystems share one [Host]. They depend on each other only through interfaces.
package own
