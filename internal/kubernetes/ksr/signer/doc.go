// Package signer issues certificates for etcd to agents and to approved clients.
//
//	Secret contiv-etcd-ca ── made once ──> Authority (package pki)
//	                                           │
//	nodes ──> names and addresses ──> Secret contiv-etcd-server ──> etcd
//	                                           │
//	agent's pod ── CertificateSigningRequest ──┤ CN node:<node>: approved, if a pod of the
//	                                           │ agent requests its own node
//	administrator ── the same, approved ───────┘ CN client:<name>, OU: its nodes
//
// The signer of requests is access.SignerName. The authority's certificate follows the issued one.
// Every instance of KSR signs; the first one wins. Package access defines the permissions of a
// certificate.
package signer
