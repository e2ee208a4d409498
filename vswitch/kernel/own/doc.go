// Package own knows which objects of the kernel are ours, and what they stand for.
//
//	names.go, tunnel.go   aliases (the mark of ownership) and names of devices
//	numbers.go            protocol numbers of addresses, routes and neighbours; tables
//	devices.go, ports.go  the device behind a logical name
//	registry.go           the northbound values that exist
//	host.go               all of that for one network namespace, with the connections
//
// The registry and the cache of devices save look-ups and translate events into keys.
// Create and List fill them; nothing depends on their surviving. An index in the cache
// may be stale: then the kernel says ENODEV, as it uses none twice, and
// [Host.WithDevice] looks the device up anew.
//
// Subsystems share one [Host] and use nothing of each other but interfaces that they
// are given.
package own
