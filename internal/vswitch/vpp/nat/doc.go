// Package nat implements the ports of vswitch.NAT with VPP's plugin nat44-ed.
//
//	nat.go         on, off, the global value
//	interfaces.go  inside, outside, output feature
//	pools.go       addresses for source NAT of leaving packets, and for twice-NAT
//	dnat.go ──> mapping.go: values rendered to mappings, by address, protocol and port
//	        ──> steps.go:   the difference between two sets of mappings as revertible requests
//	        ──> sessions.go: ends connections that began before their mapping
//	tags.go        tags that identify mappings
//	vrf.go         between which VRFs is translated
//
// Interfaces, pools and tables have no names in VPP: they are ours on our interfaces. NAT needs
// only the registry of interfaces and the session; changed interface addresses arrive as events.
package nat
