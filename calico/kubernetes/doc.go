// Package kubernetes reads Calico's data from the Kubernetes datastore, where they are resources of
// the API server instead of keys in etcd.
//
//	ipamblocks.crd.projectcalico.org ──────┐
//	blockaffinities.crd.projectcalico.org ─┼─> Source ──> datastore.State
//	nodes (annotations, InternalIP) ───────┘
//
// The address of a node, of each family, is the first of these: the annotation
// contivpp.io/calico-peerip-ipv4, with which a route agent publishes it; Calico's own,
// projectcalico.org/IPv4Address; the node's InternalIP.
//
// While the API server is away, nothing changes.
package kubernetes
