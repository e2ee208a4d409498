// Package follow keeps a datastore.State equal to what is in etcd.
//
//	          ┌── the connection is lost, the revision was compacted ──┐
//	          ▼                                                        │
//	Watch ─> List ──> State ──────────────> update(State) ──> changes ─┘
//	                    ▲                        ▲               │
//	                    └── kept (hold) ─────────┴───────────────┘
//
// While etcd is away, nothing changes. An etcd that comes back with other data, since it was
// wiped or restored, is believed in what it has, but not yet in what it lacks: that is
// kept until it has blocks again, and some time longer, in which hosts publish their addresses.
// For the same reason, a datastore without any block is not believed at the start.
package follow
