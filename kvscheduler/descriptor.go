package kvscheduler

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Item is a value of one descriptor as its callbacks exchange it with the
// scheduler.
type Item[V proto.Message, M any] struct {
	Key      string
	Value    V
	Metadata M
	Origin   Origin
}

// NoMetadata is the metadata type of descriptors that keep none.
type NoMetadata = struct{}

// Dependency must be satisfied for a value to be configured. Exactly one of
// Key and AnyOf is set. All dependencies of a value must be satisfied.
type Dependency struct {
	// Label names the dependency for people; unique within the value.
	Label string
	// Key must be available.
	Key string
	// AnyOf is satisfied when at least one matching key is available.
	AnyOf AnyOf
}

// AnyOf selects keys by prefix and predicate. With both given, a key must match
// one of the prefixes and the predicate. With no prefix, every key is a
// candidate: avoid it, it is slow. The predicate depends on the key alone; it is the one
// callback that may be called concurrently.
type AnyOf struct {
	KeyPrefixes []string
	KeySelector func(key string) bool
}

// KeySpace says which keys belong to a descriptor.
type KeySpace struct {
	// Prefix is common to all keys of the space. For a singleton it is the key.
	Prefix string
	// Match narrows the space down to some of the keys with Prefix. Spaces of
	// two descriptors must not overlap. nil: every key with Prefix.
	Match func(key string) bool
	// Example is a key of the space. Required with Match: registration proves
	// with it that no other descriptor claims the same keys.
	Example string
}

// Descriptor describes the values of one key space: their dependencies, their derived values, and
// how they are created, changed, deleted and read back in the southbound. All callbacks are
// optional, except that a descriptor of values requested by the northbound has Create and Delete.
//
// Callbacks of one scheduler are never called concurrently. They must not
// change the values that they are given. A callback that panics or exceeds its
// deadline fails its value, nothing else.
type Descriptor[V proto.Message, M any] struct {
	// Name is unique within the scheduler, e.g. "vpp-interface".
	Name string
	Keys KeySpace
	// NB says that the northbound may request values of this space. False for
	// derived and obtained values.
	NB bool

	// KeyLabel shortens a key for metadata maps and people. Default: the key.
	KeyLabel func(key string) string
	// Equivalent reports whether a change from old to new needs no operation.
	// Default: proto.Equal.
	Equivalent func(key string, old, new V) bool
	// Validate returns an error, preferably an InvalidValueError, for a value
	// that can never be configured. Such a value becomes INVALID, with no retry.
	Validate func(key string, value V) error

	// Create makes the value exist. After a failure in the middle it must be
	// repeatable.
	Create func(ctx context.Context, key string, value V) (M, error)
	// Delete makes the value not exist. Deleting what is already gone succeeds.
	Delete func(ctx context.Context, key string, value V, metadata M) error
	// Update turns old into new. Without it every change is a re-creation.
	Update func(ctx context.Context, key string, old, new V, metadata M) (M, error)
	// UpdateWithRecreate reports whether the change from old to new needs a delete and
	// a create. Default: true exactly when Update is nil.
	UpdateWithRecreate func(key string, old, new V, metadata M) bool

	// CreateBatch takes the place of several calls of Create, for values that do
	// not depend on each other; there is a Create all the same. It returns the
	// metadata and the error of each value, in order; nil errors: all exist.
	CreateBatch func(ctx context.Context, values []Item[V, M]) ([]M, []error)
	// DeleteBatch takes the place of several calls of Delete, for values on
	// which nothing depends.
	DeleteBatch func(ctx context.Context, values []Item[V, M]) []error

	// Stage says that Create, Update and Delete only prepare what its Commit applies
	// for the whole transaction. nil: they take effect at once.
	Stage *Stage

	// Retrieve reads all values of the space that exist in the southbound; base values only, never
	// derived ones. expected holds the values that should exist: to identify objects that the
	// southbound does not name. Without Retrieve, the scheduler assumes that its operations are
	// still in effect.
	Retrieve func(ctx context.Context, expected []Item[V, M]) ([]Item[V, M], error)
	// RetrieveKeys reads only the expected values, of which those that exist
	// are returned. Default: Retrieve, filtered.
	RetrieveKeys func(ctx context.Context, expected []Item[V, M]) ([]Item[V, M], error)
	// RetrieveAfter names descriptors whose values are read before this one's.
	RetrieveAfter []string

	// Retriable reports whether repeating the operation that failed with err may help.
	// Default: true, except for the package's own non-retriable errors.
	Retriable func(err error) bool
	// DerivedValues breaks a base value into parts with dependencies or
	// operations of their own. Deterministic. Derived values derive nothing.
	DerivedValues func(key string, value V) []KeyValue
	// Dependencies of the value.
	Dependencies func(key string, value V) []Dependency
	// MetadataIndexes are secondary indexes over the metadata, by index name.
	MetadataIndexes map[string]func(metadata M) []string
}
