// Package service lets pods reach destinations outside of the cluster: packets that leave through the
// main interface get the address of the node (SNAT), if the option natExternalTraffic is set.
//
//	main interface, node address ──> Nat44Global, Nat44Interface, Nat44AddressPool
//	                                 SourceNAT66, if natExternalTrafficIPv6 asks for it
//
// Traffic between pods and nodes keeps its addresses, since traffic to other nodes leaves through the
// overlay. Without an overlay, it leaves through the same interface as all other traffic, and nothing
// is translated.
//
// With services: vswitch in service.conf (package config), the vswitch translates
// Kubernetes services, too:
//
//	Service, EndpointSlice, own Node ──> processor ──> renderer/nat ──> DNat44, DNat66
//	pod subnet, service subnets ──> ServiceNetwork, Nat44AddressPool (for twice-NAT)
//
// An update requests the same values as a resync would.
package service
