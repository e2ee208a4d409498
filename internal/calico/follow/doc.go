// Package follow keeps a datastore.State equal to etcd.
//
//	          ┌── the connection is lost, the revision was compacted ──┐
//	          ▼                                                        │
//	Watch ─> List ──> State ──────────────> update(State) ──> changes ─┘
//	                    ▲                        ▲               │
//	                    └── kept (hold) ─────────┴───────────────┘
//
// While etcd is unreachable, nothing changes. If etcd returns with other data, because it was wiped
// or restored, its data is used, but missing data is kept until etcd has blocks again, plus some
// time for hosts to publish their addresses. For the same reason, a datastore without any block is
// not used at the start.
package follow
