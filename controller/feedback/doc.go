// Package feedback answers those who configure a node from outside: it publishes in etcd
// the state of each value that they gave, and the outcome of each resync that they
// requested.
//
//	            gRPC, files ──ExternalConfigChange─┐
//	etcd ──> dbwatcher ─────ExternalConfigChange───┴> event loop ───> KVScheduler
//	  ↑          │ what there is,                        │ what was       │ states
//	  │          ↓ and what is no good                   ↓ processed      ↓
//	  └──────────────────────────── Publisher ──────────────────────────────
//	     /vnf-agent/<node>/status/<key>      ValueStatus
//	     /vnf-agent/<node>/status/resync/…   ResyncStatus
//	     /vnf-agent/<node>/status/policy/…   what other parts Tell
//
// Promises:
//
//   - A status with the revision of a value is published after the transaction with
//     that value, never before.
//   - The last state always arrives; states between may be left out. A status
//     that does not change is not written again.
//   - Statuses of values that are gone are removed, those of a former run of
//     the agent included.
//   - Nobody waits for etcd: what cannot be written now is written later.
//   - What is written here is no configuration: dbwatcher ignores the prefix.
package feedback
