// Package policies enforces the values of contiv.filter in VPP, with access lists of the plugin acl
// on the interfaces of subjects.
//
//	AddressSet, EndpointSet, AccessList, Subject ──expand──> rules of each subject and direction
//
//	lists of an interface:  head ── subject ── another subject ── rest
//	                        │       └ its expanded stages, for its addresses; all of it is decided
//	                        └ neighbour discovery and ICMP errors pass
//
// VPP's lists have neither sets nor stages. Both are expanded, and a change replaces the lists of
// the affected subjects, each atomically. A rule that passes a connection to the next stage expands
// to that stage's rules, restricted to the rule's connections.
//
// Lists are stateful: permitting a connection permits its replies. Both directions of an interface
// always have lists, because replies leave where the connection entered. After a list has changed,
// VPP evaluates existing connections again at their next packet in the original direction. An
// earlier reply would open the connection in the opposite direction. So, in a direction without
// isolation, TCP replies from or to server ports open nothing.
//
// The tags of lists identify their subjects. Sets and lists come from the expected values, which
// are read before subjects.
package policies
