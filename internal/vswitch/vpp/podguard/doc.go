// Package podguard implements vswitch.SourceGuards with VPP's classifier: it prevents pods and
// other attached interfaces from spoofing packets.
//
//	frame of a pod ──> l2-input ──> l2-input-classify ──┬─ own IPv4 ──> ip4-input ──> as on any interface
//	                                                    ├─ own IPv6 ──> ip6-input
//	                                                    ├─ own ARP  ──> arp-input
//	                                                    └─ anything else   ──> dropped, counted by reason
//
// VPP filters ARP and neighbour discovery on layer 2 only. So a guarded interface is a port of a
// bridge domain that forwards nothing, and permitted packets leave layer 2 immediately. Otherwise
// the interface stays a layer-3 interface, with its index, addresses, routes, access lists and NAT.
// MAC-IP rules use other classifier tables.
//
//	filter.go   renders a guard as classifier tables, without I/O
//	tables.go   creates tables in VPP, binds them to interfaces, and finds them by the marks of entries
//	records.go  stores guards as unbound access lists, for interfaces that do not exist (yet) and for
//	            restarted agents
//	guards.go   implements the port
//	silence.go  drops selected flows of pods temporarily
//	ranges.go   enforces the source ranges of service frontends
//	range_record.go  stores the ranges as an unbound access list
//	open.go     enforces the ranges on an interface without a guard: the host's
//	drops.go    reads counters
//
// VXLAN from outside needs no rule: VPP looks up the tunnel of a packet by both ends. A pod must
// not send VXLAN to the remote end of a tunnel: once its source is translated to the node's
// address, the remote end would accept it as the node's own.
package podguard
