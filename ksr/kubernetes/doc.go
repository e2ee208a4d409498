// Package kubernetes is a source of Kubernetes objects: the API server of a
// cluster.
//
//	API server ──list, watch──> informer per kind ──add, update, delete──> pending ──Changes──> ksr.Reflector
//	                              │ objects without what                  (last state
//	                              │ is not reflected                       per object)
//	                              └──errors──> Problems
//
// Nothing is reported before all kinds are listed once, or, if some cannot be, for
// lack of a permission for example, those that can. Only in the former case the
// report is complete, and what it lacks is swept from the store.
package kubernetes
