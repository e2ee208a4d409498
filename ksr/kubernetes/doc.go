// Package kubernetes is a source of Kubernetes objects: the API server of a
// cluster.
//
//	API server ──list, watch──> informer per kind ──add, update, delete──> pending ──Changes──> ksr.Reflector
//	                              │ objects without what                  (last state
//	                              │ is not reflected                       per object)
//	                              └──errors──> Problems
//
// Nothing is reported before all kinds have been listed once, or, if some cannot be listed, for
// example for lack of a permission, all others. Only in the former case is the report complete, and
// everything that it does not contain swept from the store.
package kubernetes
