package store

import (
	"context"
	"errors"
)

var (
	// ErrUnavailable is wrapped by errors of calls that cannot reach the store now; a retry may
	// help.
	ErrUnavailable = errors.New("out of reach")
	// ErrDenied is wrapped if the user is unknown or lacks the permission for the key.
	ErrDenied = errors.New("permission denied")
	// ErrCompacted is wrapped if the revision of a watch was compacted: list again and watch from
	// there.
	ErrCompacted = errors.New("revision was compacted")
)

// KV is a stored pair. Revision is the store's revision of its last change; 0 in stores without
// revisions.
type KV struct {
	Key      string
	Value    []byte
	Revision int64
}

// Broker reads and writes keys. Implementations are safe for concurrent use.
type Broker interface {
	// Get returns ok=false for a missing key.
	Get(ctx context.Context, key string) (kv KV, ok bool, err error)
	// List returns all pairs with the prefix, sorted by key, and the revision of the snapshot.
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

// Identified is a Broker that identifies its database.
type Identified interface {
	Broker
	// Identity returns the identity of the database that answered last; "" if none yet. A database
	// that lost its data may keep its identity.
	Identity() string
}

// Dated is a Broker with a revision that anyone may read.
type Dated interface {
	Broker
	// Revision returns the revision of the store, or of a replica that may lag. It needs no
	// permission.
	Revision(ctx context.Context) (int64, error)
}

// Change is a put or, with Deleted, a deletion without a value.
type Change struct {
	KV
	Deleted bool
}

// WatchBatch holds the changes of one or more store transactions in order, or the error that ended
// the watch.
type WatchBatch struct {
	Changes  []Change
	Revision int64
	Err      error
}

// Watchable is a Broker with watches.
type Watchable interface {
	Broker
	// Watch reports changes of keys with any of the prefixes after revision (0: from now on). The
	// channel is closed when ctx ends, or after a batch with Err. A watch established before a List
	// misses nothing.
	Watch(ctx context.Context, revision int64, prefixes ...string) (<-chan WatchBatch, error)
}
