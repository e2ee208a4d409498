// Package signer issues certificates for etcd to agents' pods, and to clients that an administrator
// approves.
//
//	Secret contiv-etcd-ca ── made once ──> Authority (package pki)
//	                                           │
//	nodes ──> names and addresses ──> Secret contiv-etcd-server ──> etcd
//	                                           │
//	agent's pod ── CertificateSigningRequest ──┤ CN node:<node>: approved, if a pod of the
//	                                           │ agent asks for the node that it runs on
//	administrator ── the same, approved ───────┘ CN client:<name>, OU: its nodes
//
// The signer of requests is access.SignerName. A certificate comes with that of the authority
// behind it. Every instance of KSR signs; the first one wins.
//
// Package access defines what a certificate permits.
package signer
