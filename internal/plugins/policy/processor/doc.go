// Package processor translates policies into the contiv.filter values of a node's vswitch. It is
// pure and incremental: the cost of a change depends on the values it affects.
//
//	SetPod, SetNamespace, SetNode, SetPolicy, SetClusterPolicy, SetLocal, SetPublished, …
//	        │
//	   cache: selected pods                    claims: owners of addresses
//	        │ members that join and leave         │
//	        └──> dirty: address sets, endpoint sets, lists, subjects
//	                          │
//	                       Changes()
//
// An address set contains the nodes, or the pods of the whole cluster, that a policy peer selects.
// A subject is a local pod that a policy selects. Its stages are the tiers: Admin, network
// policies, and Baseline for pods that no network policy selects.
package processor
