// Package datastore decodes the data that Calico stores about its addresses, and that route agents
// store for each other:
//
//	/calico/ipam/v2/assignment/ipv4/block/192.168.0.0-26     a block, and the users of its addresses
//	/calico/ipam/v2/host/worker1/ipv4/block/192.168.0.0-26   a block that a host claims
//	/vpp-calico/hosts/worker1/peerip/ipv4/1                  the address that leads to a host
//
//	key, value ──Decode──> Block, Affinity or Peer ──> State, by key
//
// The values are JSON of Calico's etcd version 3 datastore, of all versions since 3.0; the
// same objects in the Kubernetes datastore are the resources IPAMBlock and BlockAffinity.
// A mistake in a value is an error about that value alone.
package datastore
