// Package kvscheduler makes a southbound be as a northbound requests, and keeps
// it so. It knows keys, values and what depends on what; it knows nothing of
// networks.
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
// created, updated, deleted and read back in the southbound, what they depend
// on and what they derive. From that the scheduler works out what has to be
// done and in which order:
//
//   - A value whose dependencies are not met is PENDING. It is created once
//     they are, and deleted before one of them is.
//   - Derived values are parts of a value with dependencies or operations of
//     their own, e.g. the binding of an interface to a bridge domain. Without
//     a descriptor they are properties: something to depend on.
//   - A change that cannot be made in place is a deletion and a creation; those
//     who depend on the value go before and come back after.
//   - An operation that fails leaves its value FAILED or RETRYING, and the rest
//     of the transaction goes on; or, with WithRevert, everything is undone.
//     The southbound is read back where it is not known what exists.
//   - An operation that another value is in the way of is not begun: a value that
//     exists and needs this one, or is part of it, and could not be deleted. Its own
//     value remembers that: it is FAILED or RETRYING, too, and done as soon as nothing is in
//     the way, in the same transaction if possible.
//   - Operations of descriptors with a Stage take effect together, at the end of the
//     transaction, or before what follows them in it.
//   - A value that is INVALID changes nothing: what existed before stays until what it
//     needs goes, and nobody waits for it. Once its deletion is due, it does not come
//     back, even if what it needs cannot be deleted in the end.
//   - A resync compares all that is requested with all that exists.
//   - What exists without us is OBTAINED: others may depend on it, and it is
//     never touched, unless it is requested. A revert gives it back, whatever it needs.
//
// The shortest useful program is in the examples of this package.
//
// # The one way to hurt yourself
//
// Callbacks run on the scheduler's own goroutine, one at a time. A callback
// that commits a transaction and waits for it waits for itself, until its
// deadline fails it. Callbacks may call Metadata, PushSBNotification, ReportDrift and
// commit WithoutBlocking.
//
// # Cycles
//
// Values may need each other: they become ready together, once all that they need
// outside of their cycle is there, and go when that goes. A cycle that leads through
// a derived value is another matter if the base value belongs to it: derived
// values come after their base value, so nothing can come first. Its values are
// PENDING, and Explain names the cycle; unless something outside satisfies one of
// their dependencies too, e.g. by an AnyOf. When that goes, they go: what a
// value holds up does not hold it up in turn. So what exists depends on what is
// requested, and not on what was requested before.
//
// # Promises
//
// Between any two operations, a value that is CONFIGURED has all of its
// dependencies met; members of a dependency cycle count as met for each other.
// A failure, panic or missed deadline of a callback fails its value, and no
// other one that does not depend on it. A full resync over a southbound that is
// as requested executes nothing. Readers never wait for the southbound. Nothing
// is shared between two schedulers.
//
// What was done is told as package record has it; packages inspect and diagram present it, from
// records and snapshots.
//
// How it is done: exec is the algorithm on one value and its surroundings, run
// are the kinds of transactions, refresh reads the southbound, ready and cycle
// decide if dependencies are met, graph is the persistent data structure beneath.
package kvscheduler
