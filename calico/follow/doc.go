// Package follow keeps a datastore.State equal to what is in etcd.
//
//	          ┌── the connection is lost, the revision was compacted ──┐
//	          ▼                                                        │
//	Watch ─> List ──> State ──────────────> update(State) ──> changes ─┘
//	                    ▲                        ▲               │
//	                    └── kept (hold) ─────────┴───────────────┘
//
// While etcd is away, nothing changes. If etcd comes back with other data, because it was wiped or
// restored, its data count, but data that it lacks are kept until it has blocks again, and some time
// longer, in which hosts publish their addresses. For the same reason, a datastore without any block
// is not believed at the start.
package follow
