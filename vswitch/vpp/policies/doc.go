// Package policies makes VPP judge connections by the values of contiv.filter, with access lists
// of the plugin acl on the interfaces of subjects.
//
//	AddressSet, EndpointSet, AccessList, Subject ──expand──> rules of each subject and direction
//
//	lists of an interface:  head ── subject ── another subject ── rest
//	                        │       └ what its stages say, for its addresses; all of it is decided
//	                        └ neighbour discovery and ICMP errors pass
//
// VPP's lists know no sets and no stages: both are written out, and a change replaces the lists of
// the subjects concerned, each at once. A rule that passes a connection on is followed by the
// next stage, as far as it is about what the rule matches.
//
// Lists are stateful: who permits a connection permits its answers. Both directions of an interface
// always have lists, because answers leave where the connection entered. When a list changes,
// VPP looks at the connections that it had permitted once more, when a packet comes the way that the
// first one came. Were it not for them, an answer that comes first would open the connection anew,
// from its other end: TCP that answers, from or to ports that servers have, opens nothing in a
// direction in which nobody is isolated.
//
// What VPP has says which subjects there are, by the tags of lists. Sets and lists are known
// from the values that are expected, which are read before subjects are.
package policies
