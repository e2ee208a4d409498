// Package credentials gets certificates for etcd from the signer (package signer), by
// CertificateSigningRequests, and keeps those of a node in files:
//
//	ca.pem      the authority that signs etcd's certificate
//	client.pem  the node's certificate and its key
//
// They are renewed after half of their life, and replaced atomically: etcd's client
// reads them for each connection.
package credentials
