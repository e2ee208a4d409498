// Package cidr divides networks: the arithmetic behind the address plan of a
// cluster, for IPv4 and IPv6 alike.
//
//	10.1.0.0/16 ──Subnet(…, 24, 2)──> 10.1.2.0/24 ──Host(…, 1)──> 10.1.2.1
//
// Everything here is pure. What the numbers stand for (node IDs, pods) is
// decided by the callers: package ipam for addresses, package contivconf for the
// configuration.
package cidr
