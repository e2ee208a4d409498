// Package store defines the key-value broker of the agents and KSR: etcd in production, a local
// bbolt file as its mirror, memory in tests.
//
//	ksr ──────────> etcd <────────── external configuration
//	                 │ Watch, List
//	              dbwatcher ──Apply──> bolt (mirror of etcd, and "/local/…")
//	                 │
//	              event loop
//
// store/etcd, store/bolt and store/memory implement Broker; etcd and memory are Watchable, bolt and
// memory are Batchers. store/storetest tests the common contract.
package store
