// Package pki issues the certificates by which etcd and its clients authenticate each other.
//
//	Authority ──signs──> server    CN contiv-etcd, its names and addresses
//	          ──signs──> client    CN is the user of etcd: root, node:<node>, client:<name>
//
// Keys are ECDSA P-256. A certificate is valid from Skew before it was signed, so that
// clocks may differ by as much. Due says when it has to be renewed: half of its life is
// left for that.
package pki
