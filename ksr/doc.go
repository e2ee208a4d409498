// Package ksr is the Kubernetes state reflector: it keeps a copy of the Kubernetes objects that the
// agents need in the key-value store, and removes the data of nodes that left the cluster from the
// store.
//
//	Source ──Changes──> wanted state ──> Reflector ──transactions──> store, below /vnf-agent/contiv-ksr/
//	(manifests,          (in memory)       │    ▲ ▲
//	 API server)                           │    │ └── Elector: only one of several instances writes
//	                                       │    └── after a failure, or when the store
//	                                       │        lost data: list, compare, sweep
//	                                       ├──> <node>'s ID and configuration, when a node is deleted
//	                                       └──> /stats, /liveness, /readiness
//
// The wanted state is a map from key to value. A resync lists what the store holds below the prefixes
// of the reflected kinds, writes what is missing or different and, if the source is complete, sweeps
// the rest. After that, changes of the source are written as they arrive, if they change the value at
// all. Changes that arrive during a transaction wait, the last one per key, and share the next one.
// The first write that fails leads to another resync, repeated with a back-off until it succeeds.
// Nothing outside those prefixes is swept.
package ksr
