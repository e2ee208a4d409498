// Package datastore decodes the data that Calico stores about its addresses, and that route agents
// exchange:
//
//	/calico/ipam/v2/assignment/ipv4/block/192.168.0.0-26     a block, and the users of its addresses
//	/calico/ipam/v2/host/worker1/ipv4/block/192.168.0.0-26   a block that a host claims
//	/vpp-calico/hosts/worker1/peerip/ipv4/1                  the address of a host
//
//	key, value ──Decode──> Block, Affinity or Peer ──> State, by key
//
// The values are JSON of Calico's etcd version 3 datastore, since 3.0. In the Kubernetes datastore
// the same objects are the resources IPAMBlock and BlockAffinity. An invalid value affects only
// itself.
package datastore
