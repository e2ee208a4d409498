// Package dbwatcher reads and watches the database of the cluster for one node: the
// reflected Kubernetes state, and the configuration that others put for the node.
//
//	etcd ──1 Watch──> changes ──────────────────────3──> KubeStateChange, ExternalConfigChange
//	  └────2 List───> snapshot ──> DBResync ──> event loop        │
//	                     │                                        │
//	                     └──────────> bolt (mirror) <─────────────┘
//	                                    │
//	no etcd within delayLocalResync ────┴──> DBResync (local)
//
// The first session decodes the mirror while it waits for the snapshot. Changes become
// events before they are mirrored: the disk may be slow.
//
// The watch is established before the snapshot is taken, so nothing is missed;
// changes that the snapshot contains are recognised by their revision. A session
// with etcd ends with an error: the connection is lost, the revision that the
// watch wants is compacted, or the revision went backwards because etcd lost its
// data. A new session then begins with a new snapshot. Between sessions the node
// works with what it knows; so it does with an etcd that lost its data, at a start as
// well, until it is filled again (recovery.go), and with one that a newer version has
// filled in a form that this one cannot read (dbresources.FormatKey).
//
// What cannot be decoded is reported and skipped; the last value that could be
// decoded stays in force, if need be the mirrored one.
//
// What others change in one transaction of the database is one ExternalConfigChange:
// all of its changes have one revision, and the watch of etcd delivers a revision as
// a whole. It splits responses only for clients that ask for fragments.
//
// Who wrote the configuration is answered by way of Feedback (feedback.go), and may
// request resyncs (requests.go).
package dbwatcher
