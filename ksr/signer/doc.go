// Package signer gives certificates for etcd to those who are pods of the cluster, or
// whom an administrator approves.
//
//	Secret contiv-etcd-ca ── made once ──> Authority (package pki)
//	                                           │
//	nodes ──> names and addresses ──> Secret contiv-etcd-server ──> etcd
//	                                           │
//	agent's pod ── CertificateSigningRequest ──┤ CN node:<node>: approved, if a pod of the
//	                                           │ agent asks for the node that it runs on
//	administrator ── the same, approved ───────┘ CN client:<name>, OU: its nodes
//
// The signer of requests is SignerName. A certificate comes with that of the authority
// behind it. Each instance of KSR signs: who is first wins.
//
// What a certificate permits is said by package access.
package signer
