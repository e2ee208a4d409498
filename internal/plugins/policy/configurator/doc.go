// Package configurator translates network policies into access lists. It is pure: a list depends on
// its policy alone. A list refers to its peers by address sets, which the caller fills.
//
//	NetworkPolicy, ClusterPolicy ──> AccessList for ingress, AccessList for egress
//	                             ──> Peers, Nodes, Ports: the sets that the lists refer to
package configurator
