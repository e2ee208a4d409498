// Package kubernetes reads Calico's data from the Kubernetes datastore: what etcd has under keys
// are resources of the API server there.
//
//	ipamblocks.crd.projectcalico.org ──────┐
//	blockaffinities.crd.projectcalico.org ─┼─> Source ──> datastore.State
//	nodes (annotations, InternalIP) ───────┘
//
// The address of a node is, of each family, the first of: the annotation
// contivpp.io/calico-peerip-ipv4, with which a route agent publishes it; Calico's own,
// projectcalico.org/IPv4Address; the node's InternalIP.
//
// While the API server is away, nothing changes.
package kubernetes
