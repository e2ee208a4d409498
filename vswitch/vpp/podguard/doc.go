// Package podguard keeps pods and other attached interfaces from spoofing packets, with VPP's
// classifier. It implements the port vswitch.SourceGuards.
//
//	frame of a pod ──> l2-input ──> l2-input-classify ──┬─ IPv4 of its own ──> ip4-input ──> as on any interface
//	                                                    ├─ IPv6 of its own ──> ip6-input
//	                                                    ├─ ARP of its own  ──> arp-input
//	                                                    └─ anything else   ──> dropped, counted by reason
//
// VPP filters ARP and neighbour discovery on layer 2 only. A guarded interface is therefore a port
// of a bridge domain that forwards nothing, and permitted packets leave layer 2 at once. In all
// other respects the interface remains a layer-3 one: its index, addresses, routes, access lists
// and NAT. MAC-IP rules use other tables of the classifier.
//
//	filter.go   what a guard says, as tables of the classifier: pure
//	tables.go   tables in VPP: made, bound to an interface, found again by the marks in their entries
//	records.go  what guards say, as access lists that are bound to nothing: guards of interfaces
//	            that do not exist (yet), and what a restarted agent reads
//	guards.go   the port
//	silence.go  flows of pods that are dropped for a while
//	ranges.go   frontends of services that pods may not use, by their source ranges
//	range_record.go  the ranges, as an access list that is bound to nothing
//	open.go     the same for an interface without a guard: that of the host
//	drops.go    what was counted
//
// VXLAN from outside needs no rule: VPP finds the tunnel of a packet by both its ends. A pod must
// not send VXLAN to the remote end of a tunnel: once its source is translated to the node's
// address, the remote end would accept it as the node's own.
package podguard
