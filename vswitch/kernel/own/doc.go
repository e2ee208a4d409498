// Package own determines which objects of the kernel are ours, and which northbound values they
// belong to.
//
//	names.go, tunnel.go   aliases (the mark of ownership) and names of devices
//	numbers.go            protocol numbers of addresses, routes and neighbours; tables
//	devices.go, ports.go  the device behind a logical name
//	registry.go           the northbound values that exist
//	host.go               all of that for one network namespace, with the connections
//
// The registry and the device cache save look-ups and translate events into keys. Create and List
// fill them; correctness does not depend on their contents. An index in the cache may be stale. The
// kernel never reuses an index, so it answers ENODEV, and [Host.WithDevice] looks the device up
// again.
//
// Subsystems share one [Host]. They use each other only through the interfaces that New hands them.
package own
