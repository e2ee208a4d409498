// Package pki issues the certificates by which etcd and its clients authenticate each other.
//
//	Authority ──signs──> server    CN contiv-etcd, its names and addresses
//	          ──signs──> client    CN is the user of etcd: root, node:<node>, client:<name>
//
// Keys are ECDSA P-256. Certificates are valid from Skew before signing, to tolerate differences of
// clocks, and renewed after half of their life (Due).
package pki
