// Package cache indexes pods and namespaces by label and tracks the pods that each selector
// selects. Updates are incremental: the cost of a changed label depends on the selectors that refer
// to the pod's labels, not on the number of policies.
//
//	SetPod, SetNamespace ──> pods and namespaces, indexed by label
//	                              │
//	Acquire(scope, selector) ──> Selection: its members ──> Watcher(selection, pod, member)
//
// Users of the same pods share a Selection. Within a scope, selections are indexed by anchor, a
// label that all their pods carry, so that a pod is compared only with selections anchored at its
// labels.
package cache
