// Package feedback informs external users of a node's configuration: it publishes in etcd the state
// of each value that they configured, and the outcome of each resync that they requested.
//
//	            gRPC, files ──ExternalConfigChange─┐
//	etcd ──> dbwatcher ─────ExternalConfigChange───┴> event loop ───> KVScheduler
//	  ↑          │ values,                               │ processed      │ states
//	  │          ↓ errors                                ↓ events         ↓
//	  └──────────────────────────── Publisher ──────────────────────────────
//	     /vnf-agent/<node>/status/<key>      ValueStatus
//	     /vnf-agent/<node>/status/resync/…   ResyncStatus
//	     /vnf-agent/<node>/status/policy/…   reports of other parts (Tell)
//
// Promises:
//
//   - A status with the revision of a value is published after the transaction with
//     that value, never before.
//   - The last state always arrives; states between may be left out. A status
//     that does not change is not written again.
//   - Statuses of values that are gone are removed, those of a former run of
//     the agent included.
//   - What others do to statuses is undone within two minutes.
//   - Callers never wait for etcd: failed writes are repeated later.
//   - Statuses are no configuration: dbwatcher ignores the prefix.
package feedback
