// Package election lets one of several instances of KSR write to etcd.
//
//	Lead ──> lease, kept alive ──> campaign below /contiv-ksr/election/ ──> work(Store)
//	            │ expired, revoked           │ another one leads: wait        │ writes
//	            │                            ▼                                ▼
//	            └──> term ends <── watch of our leader key      txn: if our leader key is
//	                    ▲                                       the one we won with, then …
//	                    └──────────────── no: ErrNotLeader ───────────┘
//
// A suspended or disconnected instance may believe that it still leads. So each write is a
// transaction with the condition that the leader key has the revision of our election. A successor
// is elected only after the key is deleted, so that writes of two leaders never mix.
package election
