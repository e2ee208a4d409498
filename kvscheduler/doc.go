// Package kvscheduler is a transaction engine for key-value configuration. It makes a southbound,
// such as a vswitch, match the values that the northbound requests, and keeps it matching. It knows
// keys, values and dependencies, but nothing about networks.
//
//	NB transaction ──┐
//	SB notification ─┼─> queue ─> plan ─> execute ─────────> publish ─> record, notify, schedule retries
//	retry, drift ────┘             │         │ ↑                │
//	                               │         │ │ Create, Update,│
//	                     dry run ──┘         ↓ │ Delete,        └──> snapshot: status, dumps, REST,
//	                                     southbound  Retrieve          explanations; never waits
//
// The northbound requests values in transactions: Put, Delete, Commit. A Descriptor per kind of value
// creates, updates, deletes and reads the values of its key space, and declares their dependencies and
// derived values. The scheduler computes the operations and their order from these rules:
//
//   - A value with unmet dependencies is PENDING. It is created when they are met, and deleted before
//     one of them is deleted.
//   - Derived values are parts of a value with dependencies or operations of their own, such as the
//     binding of an interface to a bridge domain. A derived value without a descriptor is a property:
//     other values can depend on it.
//   - A change that cannot be made in place deletes and creates the value. Its dependents are deleted
//     before and created after it.
//   - A failed operation leaves its value FAILED or RETRYING. The rest of the transaction continues,
//     or is undone if the transaction was committed WithRevert. The failed value is read back.
//   - A dependent or derived value that could not be deleted blocks the operation. The value is then
//     FAILED or RETRYING, too, and the operation is executed when nothing blocks it, in the same
//     transaction if possible.
//   - Operations of descriptors with a Stage take effect together.
//   - An INVALID value changes nothing. Its last valid version stays until its deletion is due, and then
//     does not come back. No other value waits for an INVALID value.
//   - A resync compares all requested values with all existing values.
//   - A value that exists without a request is OBTAINED. Other values can depend on it, and it is never
//     changed. A request makes it an ordinary value; a revert returns it to OBTAINED.
//
// Start with the examples of this package.
//
// # Callbacks must not wait for the scheduler
//
// Callbacks run one at a time, while the scheduler waits for them. A callback that commits a transaction
// and waits for its result blocks until its deadline fails it. Callbacks may call Metadata,
// MetadataLabels, PushSBNotification and ReportDrift, and commit WithoutBlocking.
//
// # Cycles
//
// Values may depend on each other. The members of a cycle are created together when all dependencies
// outside of the cycle are met, and deleted together when one of these is lost. A cycle through a derived
// value and its base value cannot start, because the base value comes first: its values stay PENDING, and
// package inspect names the cycle. A value outside of the cycle can support it, for example by satisfying
// an AnyOf. When that value is deleted, the cycle is deleted, too: a value never supports its own
// dependencies. The result depends only on the current requests, not on their history.
//
// # Guarantees
//
//   - Between any two operations, all dependencies of a CONFIGURED value are met. Members of a cycle count
//     as met for each other.
//   - A failure, panic or missed deadline of a callback fails only its value and the values that depend on
//     it.
//   - A full resync over a southbound that matches the requests executes no operation.
//   - Readers never wait for the southbound.
//   - Two schedulers in a process share nothing.
//
// # Packages and files
//
// Package record defines the records of transactions, package graph the persistent graph of values.
// Packages inspect and diagram present records and snapshots.
//
// A transaction is executed by five types: view holds its versions of the values (view.go) and decides
// whether dependencies are met (ready.go, cycle.go); runner applies the values that its type of
// transaction requires (run.go); exec processes one value and its surroundings (exec*.go, stage.go);
// refresh reads the southbound (refresh.go); reversal undoes a transaction that failed (reversal.go).
// opLog keeps the operations for the record (oplog.go).
package kvscheduler
