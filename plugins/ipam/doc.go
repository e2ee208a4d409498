// Package ipam assigns the addresses of a node: those of its pods, one by one,
// and those that follow from the node's ID.
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
// Nodes do not talk to each other about addresses: the ID divides the space.
//
// A pod's address is held while the pod is wired on this node or its Kubernetes
// object exists and is not finished; it is released when neither is so. A
// restarted sandbox therefore keeps its address. A pod with the same name and
// another UID is another pod, and gets other addresses. Released addresses are used
// again as late as possible: allocation goes round the subnet. The addresses of
// custom interfaces (custom.go) are part of the pod's record, and go with it.
package ipam
