// Package access controls access to keys in etcd. It manages etcd's users and roles, one of each
// per node and per other holder of a certificate.
//
//	etcd k8s/node/<node> ──────────┐
//	etcd allocatedIDs/<id> ────────┼──> wanted users ──difference──> etcd's users and roles
//	etcd /contiv-ksr/clients/<name>┘         │
//	                                         └──> an ID for each node
//
// The user is the common name of the certificate (package pki):
//
//	root           everything: KSR itself
//	node:<node>    reads the reflected keys; writes /vnf-agent/<node>/ and its own ID
//	client:<name>  reads the list of nodes; writes /vnf-agent/<node>/ of its nodes
//
// Without roles, agents choose their own IDs. With roles, the ID exists before the agent may read
// anything, and the agent regards it as its ID from an earlier run.
package access
