// Package ksr is the Kubernetes state reflector. It copies the Kubernetes objects that agents need
// to the key-value store, and removes the data of deleted nodes from it.
//
//	Source ──Changes──> wanted state ──> Reflector ──transactions──> store, below /vnf-agent/contiv-ksr/
//	(manifests,          (in memory)       │    ▲ ▲
//	 API server)                           │    │ └── Elector: only one of several instances writes
//	                                       │    └── after a failure, or when the store
//	                                       │        lost data: list, compare, sweep
//	                                       ├──> <node>'s ID and configuration, when a node is deleted
//	                                       └──> /stats, /liveness, /readiness
//
// The wanted state maps keys to values. A resync lists the store below the prefixes of the
// reflected kinds, writes missing and different values and, if the source is complete, sweeps the
// rest. Then it writes changes of the source as they arrive. Changes during a transaction are
// merged per key and share the next one. A failed write causes a resync, which is repeated with a
// back-off until it succeeds. Keys outside the prefixes are never swept.
package ksr
