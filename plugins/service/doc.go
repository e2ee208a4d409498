// Package service translates addresses. With natExternalTraffic, packets that leave the cluster
// through the main interface get the address of the node (SNAT):
//
//	main interface, node address ──> Nat44Global, Nat44Interface, Nat44AddressPool
//	                                 SourceNAT66, with natExternalTrafficIPv6
//
// Traffic to other nodes leaves through the overlay and keeps its addresses. Without an overlay, it
// shares the interface with all other traffic, and nothing is translated.
//
// With services: vswitch in service.conf (package config), the vswitch translates Kubernetes
// services:
//
//	Service, EndpointSlice, own Node ──> processor ──> renderer/nat ──> DNat44, DNat66
//	pod subnet, service subnets ──> ServiceNetwork, Nat44AddressPool (for twice-NAT)
//
// An update requests the same values as a resync would.
package service
