// Package configurator translates network policies into access lists. It is pure: a list depends on
// its policy alone. The peers are in address sets, which the list refers to and the caller fills.
//
//	NetworkPolicy, ClusterPolicy ──> AccessList for ingress, AccessList for egress
//	                             ──> Refs: the selections and port names that they refer to
package configurator
