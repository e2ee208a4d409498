// Package configurator writes network policies as access lists. It is pure: a list
// depends on its policy alone. Who the peers are is the business of the address sets
// that the list refers to, and which the caller fills.
//
//	NetworkPolicy, ClusterPolicy ──> AccessList for ingress, AccessList for egress
//	                             ──> Refs: the selections and port names that they refer to
package configurator
