// Package nat is NAT44 by VPP's plugin nat44-ed: the ports of vswitch.NAT.
//
//	nat.go         on, off, the global value
//	interfaces.go  inside, outside, output feature
//	pools.go       addresses for what leaves, and for twice-NAT
//	dnat.go ──> mapping.go: values rendered to mappings, by address, protocol and port
//	        ──> steps.go:   the difference between two sets of mappings as requests that can be taken back
//	        ──> sessions.go: connections from before that have to end
//	tags.go        how mappings say whose they are
//	vrf.go         between which VRFs is translated
//
// Nothing of VPP's names interfaces, pools and tables: they are ours on interfaces that are
// ours. NAT needs the registry of interfaces and the session, no other subsystem; that the
// addresses of an interface have changed reaches it as an event.
package nat
