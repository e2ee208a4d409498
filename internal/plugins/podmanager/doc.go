// Package podmanager tracks the pods of this node. It serves CNI requests, turns them into events,
// and persists each pod, so that other plugins can wire it again after a restart.
//
//	contiv-cni ──> cniserver ──> Server ──AddPod, DeletePod, CheckPod──> event loop ──> handlers
//	                               │                                        │
//	                               └<──── interfaces, routes ───────────────┘
//
//	LocalPods   pods wired on this node   <──> /local/podmanager/… in the local store
//	Pods        pods known to Kubernetes  <──  KubeState
//
// After a restart, a local pod is kept if the same network namespace, not only its path, still
// exists.
package podmanager
