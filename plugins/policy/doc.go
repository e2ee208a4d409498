// Package policy makes the vswitch enforce Kubernetes network policies.
//
//	KubeStateChange of pods, namespaces, nodes, policies ─┐
//	AddPod, DeletePod, PodCustomIfUpdate ─────────────────┤
//	NodeUpdate: VppNode.pod_addresses ────────────────────┴─> processor ──> AddressSet, EndpointSet,
//	                                                                        AccessList, Subject
//
// Additions and changes of an event are part of its transaction: the policies of a pod are in place
// before its CNI ADD returns, and even before its interface is created, because of the order of keys.
// An address that a pod gave up is in no set when another pod gets it. Values that nothing refers to
// any more are removed afterwards, in a transaction of their own: if they were removed first, pods
// would be wrongly isolated, or not isolated, in between.
//
// The states of policies are followed and published (see Publish): values that are not as they should be,
// pods that are not wired yet, and a vswitch that is gone keep a policy from being realised.
//
// Packages below: cache (which pods are selected), configurator (policies as lists), processor (their
// values on this node), verdict (their decision about a connection), oracle (for tests).
package policy
