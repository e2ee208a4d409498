// Package kubernetes reads Calico's data from the Kubernetes datastore, where it consists of
// resources of the API server instead of etcd keys.
//
//	ipamblocks.crd.projectcalico.org ──────┐
//	blockaffinities.crd.projectcalico.org ─┼─> Source ──> datastore.State
//	nodes (annotations, InternalIP) ───────┘
//
// The address of a node, per family, is the first of: the annotation contivpp.io/calico-peerip-ipv4
// of a route agent; Calico's own, projectcalico.org/IPv4Address; the node's InternalIP.
//
// While the API server is unreachable, nothing changes.
package kubernetes
