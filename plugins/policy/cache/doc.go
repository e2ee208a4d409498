// Package cache knows pods and namespaces by their labels, and which pods selectors select. It is kept
// up to date incrementally: the cost of a changed label depends on the selectors that refer to the
// pod's labels, not on the number of policies.
//
//	SetPod, SetNamespace ──> pods and namespaces, indexed by label
//	                              │
//	Acquire(scope, selector) ──> Selection: its members ──> Watcher(selection, pod, member)
//
// A Selection is shared by all users of the same pods. Its scope is a namespace by name, or all
// namespaces whose labels match a selector. Within a scope, a selection is filed under its anchor, a
// label that each of its pods has; only those filed under labels of a pod are compared with it.
package cache
