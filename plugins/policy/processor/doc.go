// Package processor translates policies into the values of contiv.filter that the vswitch of a node
// should have. It is pure and incremental: the cost of a change depends on what it affects.
//
//	SetPod, SetNamespace, SetNode, SetPolicy, SetClusterPolicy, SetLocal, SetPublished, …
//	        │
//	   cache: which pods are selected          addresses: whose is which
//	        │ members that come and go            │
//	        └──> dirty: address sets, endpoint sets, lists, subjects
//	                          │
//	                       Changes()
//
// Address sets have the pods of the whole cluster that a peer of a policy selects,
// or those of nodes; subjects are pods of this node that a policy selects. Their stages are
// the tiers: cluster network policies before network policies, and after them for pods that none
// of those is about.
package processor
