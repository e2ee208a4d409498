// Package kvscheduler makes a southbound match the requests of a northbound, and keeps it
// that way. It knows keys, values and their dependencies; it knows nothing of networks.
//
//	NB transaction ──┐
//	SB notification ─┼─> queue ─> plan ─> execute ─────────> publish ─> record, notify, schedule retries
//	retry, drift ────┘             │         │ ↑                │
//	                               │         │ │ Create, Update,│
//	                     dry run ──┘         ↓ │ Delete,        └──> snapshot: status, dumps, REST,
//	                                     southbound  Retrieve          explanations; never waits
//
// The northbound requests values by key, in transactions: Put, Delete, Commit.
// A descriptor, one per kind of value, says how values of its key space are
// created, updated, deleted and read back in the southbound, their dependencies and
// their derived values. From these the scheduler computes the operations and their order:
//
//   - A value whose dependencies are not met is PENDING. It is created once
//     they are, and deleted before one of them is.
//   - Derived values are parts of a value with dependencies or operations of
//     their own, e.g. the binding of an interface to a bridge domain. Without
//     a descriptor they are properties: something to depend on.
//   - A change that cannot be made in place is a deletion and a creation; dependents are
//     deleted before and created after.
//   - An operation that fails leaves its value FAILED or RETRYING, and the rest
//     of the transaction goes on; or, with WithRevert, everything is undone.
//     Values of unknown state are read back from the southbound.
//   - An operation is not started while it is blocked by a dependent or derived value that
//     could not be deleted. Its value is then FAILED or RETRYING, too, and the operation is
//     executed once nothing blocks it, in the same transaction if possible.
//   - Operations of descriptors with a Stage take effect together, at the end of the
//     transaction, or before what follows them in it.
//   - An INVALID value changes nothing: its last valid version stays until the dependencies
//     of that version go, and no other value waits for it. Once its deletion is due, it does
//     not come back, even if its dependencies cannot be deleted in the end.
//   - A resync compares all requested with all existing values.
//   - A value that exists without a request is OBTAINED: others may depend on it, and it is
//     never changed unless it is requested. A revert then returns it to being OBTAINED,
//     whatever its dependencies.
//
// The shortest useful program is in the examples of this package.
//
// # The one way to hurt yourself
//
// Callbacks run one at a time, while the scheduler waits for them. A callback
// that commits a transaction and waits for it waits for itself, until its
// deadline fails it. Callbacks may call Metadata, PushSBNotification, ReportDrift and
// commit WithoutBlocking.
//
// # Cycles
//
// Values may need each other: they become ready together, once all their dependencies
// outside of their cycle are met, and are deleted together when one of those goes. A cycle
// through a derived value and its base value cannot start, since derived values come after
// their base value. Its values are PENDING, and Explain names the cycle, unless a value outside
// also satisfies one of their dependencies, for example an AnyOf. When that value goes, they go:
// a value does not count as support for the values that it depends on. The result therefore
// depends only on the present requests, and not on their history.
//
// # Promises
//
// Between any two operations, a value that is CONFIGURED has all of its
// dependencies met; members of a dependency cycle count as met for each other.
// A failure, panic or missed deadline of a callback fails its value, and no
// other one that does not depend on it. A full resync over a southbound that matches the
// requests executes nothing. Readers never wait for the southbound. Two schedulers share
// nothing.
//
// Package record defines the records of transactions; packages inspect and diagram present
// records and snapshots.
//
// Files: exec is the algorithm on one value and its surroundings, run has the kinds of
// transactions, refresh reads the southbound, ready and cycle decide whether dependencies are
// met, and graph is the persistent data structure beneath.
package kvscheduler
