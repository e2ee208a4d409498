// Package access controls who may read and write which keys in etcd: it manages etcd's users and
// roles, one of each for every node and for every other holder of a certificate.
//
//	etcd k8s/node/<node> ──────────┐
//	etcd allocatedIDs/<id> ────────┼──> wanted users ──difference──> etcd's users and roles
//	etcd /contiv-ksr/clients/<name>┘         │
//	                                         └──> an ID for each node
//
// The user is the common name of the certificate (package pki):
//
//	root           everything: KSR itself
//	node:<node>    reads what is reflected; writes /vnf-agent/<node>/ and its own ID
//	client:<name>  reads the list of nodes; writes /vnf-agent/<node>/ of its nodes
//
// Without such roles, agents choose their IDs themselves. With them, the ID exists before the agent
// may read anything, and the agent takes it for one from an earlier run.
package access
