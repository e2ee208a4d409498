// Package election lets one of several instances of KSR write to etcd.
//
//	Lead ──> lease, kept alive ──> campaign below /contiv-ksr/election/ ──> work(Store)
//	            │ expired, revoked           │ another one leads: wait        │ writes
//	            │                            ▼                                ▼
//	            └──> term ends <── watch of our leader key      txn: if our leader key is
//	                    ▲                                       the one we won with, then …
//	                    └──────────────── no: ErrNotLeader ───────────┘
//
// An instance that was suspended, or cut off, may believe that it still leads. Therefore each write is
// one etcd transaction with the condition that the leader key still has the revision of our election.
// A successor is elected only after that key is gone, so the writes of two leaders never mix.
package election
