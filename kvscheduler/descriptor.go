package kvscheduler

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Item is a value as the scheduler and the callbacks of its descriptor exchange it.
type Item[V proto.Message, M any] struct {
	Key      string
	Value    V
	Metadata M
	Origin   Origin
}

// NoMetadata is the metadata type of descriptors without metadata.
type NoMetadata = struct{}

// Dependency is a condition for a value to exist. Exactly one of Key and AnyOf is set. A value exists
// only while all of its dependencies are satisfied.
type Dependency struct {
	// Label names the dependency in statuses and explanations. It is unique within the value.
	Label string
	// Key must be available.
	Key string
	// AnyOf is satisfied while at least one matching key is available.
	AnyOf AnyOf
}

// AnyOf selects keys. A key matches if it has one of the prefixes and KeySelector accepts it. An
// empty list of prefixes or a nil selector accepts all keys; a selector without prefixes is slow,
// because it is called for every key. KeySelector must depend on the key alone, and may be called
// concurrently.
type AnyOf struct {
	KeyPrefixes []string
	KeySelector func(key string) bool
}

// KeySpace is the set of keys that belong to a descriptor. The spaces of two descriptors must not
// overlap.
type KeySpace struct {
	// Prefix is common to all keys of the space. The Prefix of a singleton is its key.
	Prefix string
	// Match selects some of the keys with Prefix, or all if it is nil. It must depend on the key
	// alone, and may be called concurrently.
	Match func(key string) bool
	// Example is a key of the space. It is required with Match: registration uses it to detect
	// overlapping spaces.
	Example string
}

// Descriptor defines the values of one key space: their dependencies and derived values, and how to
// create, change, delete and read them in the southbound. All callbacks are optional, except that a
// descriptor with NB needs Create and Delete.
//
// The scheduler calls one callback at a time, over all descriptors. The callbacks with a context
// run on a goroutine of their own, under the deadline Options.CallTimeout. The others must only
// compute: they delay the whole scheduler. No callback may change its arguments, or commit a
// transaction and wait for it.
//
// A callback that returns an error, panics, or exceeds its deadline fails its value, and only that
// value. The scheduler then knows nothing about the state of the object. It reads the object back with
// RetrieveKeys or Retrieve, if the descriptor has one of them, before it calls another operation for
// it. A callback that exceeds its deadline keeps running until it returns; meanwhile, all calls of its
// descriptor fail with ErrDeadline.
type Descriptor[V proto.Message, M any] struct {
	// Name is unique within the scheduler, for example "vpp-interface".
	Name string
	Keys KeySpace
	// NB allows the northbound to request values of this space. It is false for derived and
	// obtained values.
	NB bool

	// KeyLabel returns the label of a key in the metadata map. It must be deterministic, and unique
	// within the space. Default: the key.
	KeyLabel func(key string) string
	// Equivalent reports whether the southbound needs no operation to turn old into new. Either
	// argument may have been requested or read back. It must be deterministic. A panic fails the
	// operation that compares the values. Default: proto.Equal.
	Equivalent func(key string, old, new V) bool
	// Validate returns an error for a value that can never be configured, preferably an
	// InvalidValueError that names the fields. The value becomes INVALID and is not retried; its
	// last valid version stays in the southbound. The result must depend on the arguments alone,
	// not on the state of the southbound. A panic makes the value FAILED instead.
	Validate func(key string, value V) error

	// Create makes the value exist, and returns its metadata. All dependencies are satisfied, and
	// the value did not exist when the scheduler last looked. Create must be idempotent: after a
	// failure without a way to read the object back, it is called again although some or all of the
	// object may exist. A failed Create may leave such remains: a repeated Create completes them,
	// and Delete removes them. An InvalidValueError makes the value INVALID, and an error that wraps
	// ErrUnsupported makes it UNIMPLEMENTED; after any other error it is FAILED or RETRYING.
	// Metadata returned with an error is ignored.
	Create func(ctx context.Context, key string, value V) (M, error)
	// Delete makes the value not exist, after the values that depend on it and its derived values
	// were deleted. It must be idempotent: deleting an absent or half-created object succeeds. value
	// is the last known version, and metadata the last known metadata, or the zero M after a failed
	// Create. A failed Delete may leave any part of the object. No other value relies on the
	// remains, and Delete is called again by a retry, a resync, or a new request.
	Delete func(ctx context.Context, key string, value V, metadata M) error
	// Update changes an existing value from old to new and returns the new metadata. It is called if
	// Equivalent and UpdateWithRecreate both return false. After an operation that could not be read
	// back, it is called without asking Equivalent. It must be idempotent: old is the last known
	// version, but after a failed Update the object may already equal new or lie between the two. A
	// failed Update leaves the value available to its dependents. It may return the errors of Create.
	// A descriptor without Update re-creates its values for every change.
	Update func(ctx context.Context, key string, old, new V, metadata M) (M, error)
	// UpdateWithRecreate reports whether the change from old to new needs a Delete and a Create.
	// Dependents and derived values are deleted before and created again afterwards. It must be
	// deterministic; a panic fails the update. Default: true if and only if Update is nil.
	UpdateWithRecreate func(key string, old, new V, metadata M) bool

	// Releases reports whether the change from old to new gives up what other values can then have,
	// such as an address that only one value may have. Such updates are executed before the
	// creations of a transaction, other updates after them. It must be deterministic; a panic counts
	// as false. May be nil.
	Releases func(key string, old, new V) bool

	// CreateBatch replaces several calls of Create for values that do not depend on each other, at
	// most 512. The contract of Create holds for each value, and Create is still required. It returns
	// the metadata and the error of each value, in order; nil errors mean that all values exist.
	// Another number of errors, a panic, or a missed deadline fails all values of the batch.
	CreateBatch func(ctx context.Context, values []Item[V, M]) ([]M, []error)
	// DeleteBatch replaces several calls of Delete for values without dependents and derived values.
	// The contract of Delete holds for each value, and Delete is still required. It returns one
	// error per value, in order, or nil if all values are gone. Other results fail all
	// values, as for CreateBatch.
	DeleteBatch func(ctx context.Context, values []Item[V, M]) []error

	// Stage, if not nil, delays the effect of Create, Update and Delete until its Commit, which
	// applies them for the whole transaction.
	Stage *Stage

	// Retrieve returns all base values of the space that exist in the southbound, in any order. It
	// must not change anything. expected lists the values that should exist, to identify objects
	// that the southbound does not name; it never contains INVALID values. An Item whose Origin is
	// UnknownOrigin is FromNB if its key is or was requested, and FromSB otherwise. An error means
	// that nothing is known: the scheduler calls Retrieve with fewer expected values to isolate the
	// one that causes it, and keeps its assumptions about the values if all attempts fail. Without
	// Retrieve and RetrieveKeys, the scheduler assumes that successful operations stay in effect.
	Retrieve func(ctx context.Context, expected []Item[V, M]) ([]Item[V, M], error)
	// RetrieveKeys returns the expected values that exist, in any order, and otherwise
	// follows the contract of Retrieve. It is called after failures, for drift reports and for
	// Verify, so its cost should depend on the number of keys and not on the size of the southbound.
	// Default: Retrieve, filtered.
	RetrieveKeys func(ctx context.Context, expected []Item[V, M]) ([]Item[V, M], error)
	// RetrieveAfter names the descriptors that are read before this one. Unknown names are ignored;
	// a cycle is an error of Register.
	RetrieveAfter []string

	// Retriable reports whether repeating the operation that failed with err may succeed. It decides
	// between RETRYING and FAILED for values with a retry policy. A panic counts as true. Default:
	// true. Errors that wrap ErrUnsupported and invalid values are never retried.
	Retriable func(err error) bool
	// DerivedValues returns the parts of a base value that have dependencies or operations of their
	// own. It must be deterministic, and is called for requested and for read values. Derived values
	// are created after their base value and deleted before it. They derive nothing themselves. A
	// derived key that another value uses is ignored with a warning. A panic fails the operation of
	// the base value.
	DerivedValues func(key string, value V) []KeyValue
	// Dependencies returns the dependencies of a value. It must be deterministic, and is called for
	// requested and for read values. A Dependency with both or neither of Key and AnyOf makes the
	// value INVALID. A panic fails the operation of the value.
	Dependencies func(key string, value V) []Dependency
	// MetadataIndexes are secondary indexes over the metadata, by name of the index. Each function
	// returns the secondary keys of a value. A panic is logged and leaves the value unindexed.
	MetadataIndexes map[string]func(metadata M) []string
}
