// Package processor computes what policies come to on a node: the values of
// contiv.filter that its vswitch is to have. It is pure and incremental: what a
// change costs depends on what it touches.
//
//	SetPod, SetNamespace, SetPolicy, SetLocal, …
//	        │
//	   cache: which pods are selected          addresses: whose is which
//	        │ members that come and go            │
//	        └──> dirty: address sets, endpoint sets, lists, subjects
//	                          │
//	                       Changes()
//
// Address sets have the pods of the whole cluster that a peer of a policy selects,
// subjects are pods of this node that a policy isolates.
package processor
