// Package store defines the key-value broker of the agents and KSR: etcd in production, a local
// bbolt file as its mirror, memory in tests.
//
//	ksr ──────────> etcd <────────── external configuration
//	                 │ Watch, List
//	              dbwatcher ──Apply──> bolt (mirror of etcd, and "/local/…")
//	                 │
//	              event loop
//
// internal/etcd/store/etcd, internal/etcd/store/bolt and internal/etcd/store/storetest/memory implement Broker; etcd and memory are Watchable, bolt and
// memory are Batchers. internal/etcd/store/storetest tests the common contract.
package store
