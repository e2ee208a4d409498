// Package dbwatcher reads and watches etcd for one node: the reflected Kubernetes state and the
// external configuration of the node.
//
//	etcd ──1 Watch──> changes ──────────────────────3──> KubeStateChange, ExternalConfigChange
//	  └────2 List───> snapshot ──> DBResync ──> event loop        │
//	                     │                                        │
//	                     └──────────> bolt (mirror) <─────────────┘
//	                                    │
//	no etcd within delayLocalResync ────┴──> DBResync (local)
//
// The watch is established before the snapshot is taken, so no change is missed. Changes contained
// in the snapshot are recognised by their revision. Events are sent before the mirror is written,
// since the disk may be slow. The first session decodes the mirror while it waits for the snapshot.
//
// A session ends with an error: the connection is lost, the revision of the watch is compacted, or
// the revision went backwards because etcd lost its data. The next session begins with a new
// snapshot. Between sessions the node keeps its state. It also does so while etcd is empty or
// incomplete (recovery.go), and while etcd holds a format of a newer version
// (kubestate.FormatKey).
//
// A value that cannot be decoded is reported, and the last decoded value, possibly from the mirror,
// stays in force.
//
// External changes made in one etcd transaction become one ExternalConfigChange: they share a
// revision, and a watch without fragments delivers a revision as a whole.
//
// Writers of the configuration get answers through Feedback (feedback.go), and may request resyncs
// (requests.go).
package dbwatcher
