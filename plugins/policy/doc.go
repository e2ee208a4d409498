// Package policy makes the vswitch enforce Kubernetes network policies.
//
//	KubeStateChange of pods, namespaces, nodes, policies ─┐
//	AddPod, DeletePod ────────────────────────────────────┴─> processor ──> AddressSet, EndpointSet,
//	                                                                        AccessList, Subject
//
// What an event adds or changes is part of its transaction: the policies of a pod are
// in place before its CNI ADD returns, before its interface is made even, as keys
// have it, and an address that a pod gave up is in no set when it is given to another. What
// nothing refers to any more goes afterwards, in a transaction of its own: if it went
// first, pods would be isolated, or would not, in between.
//
// What becomes of policies is followed (see Publish): values that are not as they should be, pods that are
// not wired yet, and a vswitch that is gone keep a policy from being realised.
//
// Packages below: cache (who is selected), configurator (policies as lists), processor
// (what that comes to on this node), verdict (what that says of a connection), oracle (for tests).
package policy
