// Package kubeclient is a source of Kubernetes objects: a cluster's API server.
//
//	API server ──list, watch──> informer per kind ──add, update, delete──> pending ──Changes──> ksr.Reflector
//	                              │ only reflected                         (last state
//	                              │ fields                                  per object)
//	                              └──errors──> Problems
//
// The first report waits until all kinds have been listed. If some cannot be listed, for example
// without permission, all others are reported after a while. Such a report is incomplete, and
// nothing is swept from the store.
package kubeclient
