// Package cidr does the arithmetic of a cluster's address plan, for IPv4 and IPv6.
//
//	10.1.0.0/16 ──Subnet(…, 24, 2)──> 10.1.2.0/24 ──Host(…, 1)──> 10.1.2.1
//
// All functions are pure. The callers give the numbers a meaning: package ipam for addresses,
// package contivconf for the configuration.
package cidr
