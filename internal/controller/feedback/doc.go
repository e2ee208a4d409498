// Package feedback publishes in etcd the state of each external value of a node and the outcome of
// each requested resync.
//
//	            gRPC, files ──ExternalConfigChange─┐
//	etcd ──> dbwatcher ─────ExternalConfigChange───┴> event loop ───> KVScheduler
//	  ↑          │ values,                               │ processed      │ states
//	  │          ↓ errors                                ↓ events         ↓
//	  └──────────────────────────── Publisher ──────────────────────────────
//	     /vnf-agent/<node>/status/<key>      ValueStatus
//	     /vnf-agent/<node>/status/resync/…   ResyncStatus
//	     /vnf-agent/<node>/status/policy/…   reports of other parts (Replace)
//
// Guarantees:
//
//   - A status with the revision of a value is published after the transaction with
//     that value.
//   - The last state is always published; intermediate states may be skipped. An
//     unchanged status is not written again.
//   - Statuses of removed values are deleted, including ones from earlier runs of the
//     agent.
//   - Changes that other writers make to statuses are undone within two minutes.
//   - Callers never wait for etcd: failed writes are retried.
//   - Statuses are not configuration: dbwatcher ignores the prefix.
package feedback
