// Package policy makes the vswitch enforce Kubernetes network policies.
//
//	KubeStateChange of pods, namespaces, nodes, policies ─┐
//	AddPod, DeletePod, PodCustomIfUpdate ─────────────────┤
//	NodeUpdate: VppNode.pod_addresses ────────────────────┴─> processor ──> AddressSet, EndpointSet,
//	                                                                        AccessList, Subject
//
// The order of keys puts the policies of a pod in place before its interface is created, and so
// before its CNI ADD returns. A released address leaves all sets before another pod gets it.
// Unreferenced values are removed in a later transaction: removing them first would isolate pods
// wrongly, or leave them open, for a moment.
//
// RunStatus publishes the state of each policy. Failed values, pods not wired yet, and an
// unavailable vswitch keep a policy from being realised.
//
// Subpackages: cache (selected pods), configurator (policies as lists), processor (the values of
// this node), verdict (the decision about a connection), oracle (for tests).
package policy
