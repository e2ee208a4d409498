// Package podguard keeps what is attached to the node from fooling it, by VPP's classifier:
// the port vswitch.SourceGuards.
//
//	frame of a pod ──> l2-input ──> l2-input-classify ──┬─ IPv4 of its own ──> ip4-input ──> as on any interface
//	                                                    ├─ IPv6 of its own ──> ip6-input
//	                                                    ├─ ARP of its own  ──> arp-input
//	                                                    └─ anything else   ──> dropped, counted by reason
//
// VPP filters ARP and neighbour discovery on layer 2 only. So a guarded interface is a port
// of a bridge domain that forwards nothing, and what is as it should be leaves layer 2 again
// at once. Everything else about the interface stays one of layer 3: its index, addresses,
// routes, access lists and NAT. MAC-IP rules use other tables of the classifier.
//
//	filter.go   what a guard says, as tables of the classifier: pure
//	tables.go   tables in VPP: made, bound to an interface, found again by the marks in their entries
//	records.go  what guards say, as access lists that are bound to nothing: guards of interfaces
//	            that do not exist (yet), and what a restarted agent reads
//	guards.go   the port
//	drops.go    what was counted
//
// VXLAN from outside needs no rule: VPP finds the tunnel of a packet by both its ends. A pod
// must not send it to the other end of one: translated to the node's address, that would
// take it for the node's own.
package podguard
