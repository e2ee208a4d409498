// Package ipam assigns the addresses of a node: one to each pod, and others derived from the
// node ID.
//
//	node ID ──┐
//	Subnets ──┴──> Plan: pod subnet, gateway, NAT loopback, VXLAN and node addresses (pure)
//
//	AddPod ──> pool of the pod subnet ──> allocation, persisted under /local/ipam/…
//	             ^
//	             └── startup: persisted allocations, local pods, KubeState pods
//
//	custom network ──> its subnet's part of the node ──> pool ──> addresses of custom interfaces
//
// Nodes do not coordinate addresses, because the ID divides the space.
//
// A pod holds its address while it is wired on this node, or while its Kubernetes object exists and
// is not finished. So a restarted sandbox keeps its address. A pod with the same name and another
// UID gets a new address. Allocation goes round the subnet, so that a released address is reused as
// late as possible. The pod's record includes the addresses of its custom interfaces (custom.go).
package ipam
