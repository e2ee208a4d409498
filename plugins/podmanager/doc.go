// Package podmanager knows the pods of this node. It serves the CNI requests for them, turns these
// into events, and remembers enough of each pod for the other plugins to wire it again after a
// restart.
//
//	contiv-cni ──gRPC──> Server ──AddPod, DeletePod, CheckPod──> event loop ──> handlers
//	                        │                                        │
//	                        └<──── interfaces, routes ───────────────┘
//
//	LocalPods   pods wired on this node   <──> /local/podmanager/… in the local store
//	Pods        pods known to Kubernetes  <──  KubeState
//
// A local pod is found again after a restart if its network namespace still
// exists: the very same one, not only its path.
package podmanager
