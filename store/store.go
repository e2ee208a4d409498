package store

import (
	"context"
	"errors"
)

var (
	// ErrUnavailable is wrapped by errors that mean that the store cannot be
	// reached now; trying again later may help.
	ErrUnavailable = errors.New("out of reach")
	// ErrDenied is wrapped when the store knows the user, but does not let it read or write
	// this key; or knows no such user.
	ErrDenied = errors.New("permission denied")
	// ErrCompacted is wrapped when a watch asks for a revision that the store
	// has forgotten: list again and watch from there.
	ErrCompacted = errors.New("revision was compacted")
)

// KV is a stored pair. Revision is the store's revision of its last change, 0 in stores
// that have none.
type KV struct {
	Key      string
	Value    []byte
	Revision int64
}

// Broker reads and writes keys. Implementations are safe for concurrent use.
type Broker interface {
	// Get returns ok=false for a key that does not exist.
	Get(ctx context.Context, key string) (kv KV, ok bool, err error)
	// List returns all pairs with the prefix, sorted by key, and the revision
	// of the snapshot.
	List(ctx context.Context, prefix string) (kvs []KV, revision int64, err error)
	Put(ctx context.Context, key string, value []byte) error
	// Delete of a missing key succeeds.
	Delete(ctx context.Context, key string) error
	DeletePrefix(ctx context.Context, prefix string) error

	// PutIfNotExists atomically puts the value unless the key exists.
	PutIfNotExists(ctx context.Context, key string, value []byte) (put bool, err error)
	// CompareAndSwap atomically replaces the value if it equals old.
	CompareAndSwap(ctx context.Context, key string, old, new []byte) (swapped bool, err error)
	// CompareAndDelete atomically deletes the key if its value equals old.
	CompareAndDelete(ctx context.Context, key string, old []byte) (deleted bool, err error)

	Close() error
}

// Identified is a Broker that can tell which database it talks to.
type Identified interface {
	Broker
	// Identity is that of the database that answered last; "" if none did yet. A
	// database that lost its data may have the same identity as before.
	Identity() string
}

// Dated is a Broker whose revision everybody may ask for.
type Dated interface {
	Broker
	// Revision is that of the store, or of a replica that may be behind. It needs no permission
	// to read any key.
	Revision(ctx context.Context) (int64, error)
}

// Change is one change that a watch reports. Deleted changes have no value.
type Change struct {
	KV
	Deleted bool
}

// WatchBatch holds the changes of one or more store transactions, in order; or the error that
// ended the watch.
type WatchBatch struct {
	Changes  []Change
	Revision int64
	Err      error
}

// Watchable is a Broker whose changes can be followed.
type Watchable interface {
	Broker
	// Watch reports changes of keys with any of the prefixes, made after
	// revision (0: from now on). The channel is closed when ctx ends, or after a batch with
	// Err. A watch that is established before a List misses nothing.
	Watch(ctx context.Context, revision int64, prefixes ...string) (<-chan WatchBatch, error)
}
