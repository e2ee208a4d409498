// Package credentials requests certificates for etcd from the signer (package signer) by
// CertificateSigningRequests, and keeps a node's credentials in files:
//
//	ca.pem      the authority that signs etcd's certificate
//	client.pem  the node's certificate and its key
//
// It renews them after half of their life. It replaces them atomically, because etcd's client reads
// them for each connection.
package credentials
