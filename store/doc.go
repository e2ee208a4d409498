// Package store is the key-value broker that the agents and KSR share: etcd in
// production, a local bbolt file as its mirror, memory in tests.
//
//	ksr ──────────> etcd <────────── external configuration
//	                 │ Watch, List
//	              dbwatcher ──Apply──> bolt (mirror of etcd, and "/local/…")
//	                 │
//	              event loop
//
// store/etcd, store/bolt and store/memory implement Broker; etcd and memory are
// Watchable, bolt and memory are Batchers. What they have in common is tested
// by store/storetest.
package store
