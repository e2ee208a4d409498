// Package cache knows pods and namespaces by their labels, and which pods selectors
// select. That is kept up to date incrementally: a pod that gets another label costs
// what the selectors cost that look at its labels, not what all policies cost.
//
//	SetPod, SetNamespace ──> pods and namespaces, indexed by label
//	                              │
//	Acquire(scope, selector) ──> Selection: its members ──> Watcher(selection, pod, member)
//
// A Selection is shared by all who ask for the same pods. Where it looks is its
// scope: the namespace with a name, or all whose labels match a selector. Within a
// scope, a selection is filed under its anchor, a label that each of its pods has;
// only those filed under labels of a pod are compared with it.
package cache
