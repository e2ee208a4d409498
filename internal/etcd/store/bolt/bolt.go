// Package bolt is a store in one local file. It holds the mirror of etcd, with which a node can
// start without etcd, and the node's own persistent data.
//
// The file is a bbolt database with one bucket. Every change is on disk when the call returns,
// unless SkipSync was called.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/etcd/store"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var bucket = []byte("kv")

// Store implements store.Batcher. Revisions are always 0.
type Store struct {
	db   *bbolt.DB
	path string
}

var _ store.Batcher = (*Store)(nil)

// Close closes the file after running transactions.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) Get(ctx context.Context, key string) (kv store.KV, ok bool, err error) {
	err = s.view(ctx, "get "+key, func(b *bbolt.Bucket) error {
		if value := b.Get([]byte(key)); value != nil {
			kv, ok = store.KV{Key: key, Value: bytes.Clone(value)}, true
		}
		return nil
	})
	return kv, ok, err
}

// List implements store.Broker. The revision is 0.
func (s *Store) List(ctx context.Context, prefix string) (kvs []store.KV, revision int64, err error) {
	err = s.view(ctx, "list "+prefix, func(b *bbolt.Bucket) error {
		return eachWithPrefix(b, prefix, func(key, value []byte) error {
			kvs = append(kvs, store.KV{Key: string(key), Value: bytes.Clone(value)})
			return nil
		})
	})
	return kvs, 0, err
}

func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.update(ctx, "put "+key, func(b *bbolt.Bucket) error { return b.Put([]byte(key), value) })
}

func (s *Store) Delete(ctx context.Context, key string) error {
	return s.update(ctx, "delete "+key, func(b *bbolt.Bucket) error { return b.Delete([]byte(key)) })
}

// DeletePrefix implements store.Broker in one transaction.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	return s.update(ctx, "delete all of "+prefix, func(b *bbolt.Bucket) error {
		var keys [][]byte // deleting moves the cursor
		_ = eachWithPrefix(b, prefix, func(key, _ []byte) error {
			keys = append(keys, bytes.Clone(key))
			return nil
		})
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) PutIfNotExists(ctx context.Context, key string, value []byte) (done bool, err error) {
	err = s.update(ctx, "put "+key, func(b *bbolt.Bucket) error {
		if done = b.Get([]byte(key)) == nil; done {
			return b.Put([]byte(key), value)
		}
		return nil
	})
	return done && err == nil, err
}

func (s *Store) CompareAndSwap(ctx context.Context, key string, old, new []byte) (done bool, err error) {
	err = s.update(ctx, "swap "+key, func(b *bbolt.Bucket) error {
		if done = equals(b, key, old); done {
			return b.Put([]byte(key), new)
		}
		return nil
	})
	return done && err == nil, err
}

func (s *Store) CompareAndDelete(ctx context.Context, key string, old []byte) (done bool, err error) {
	err = s.update(ctx, "delete "+key, func(b *bbolt.Bucket) error {
		if done = equals(b, key, old); done {
			return b.Delete([]byte(key))
		}
		return nil
	})
	return done && err == nil, err
}

// Batch implements store.Batcher. It writes to the disk once.
func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	return s.update(ctx, fmt.Sprintf("write %d changes", len(changes)), func(b *bbolt.Bucket) error {
		for _, c := range changes {
			var err error
			if c.Deleted {
				err = b.Delete([]byte(c.Key))
			} else {
				err = b.Put([]byte(c.Key), c.Value)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.Key, err)
			}
		}
		return nil
	})
}

func (s *Store) view(ctx context.Context, what string, f func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.wrap(what, s.db.View(func(tx *bbolt.Tx) error { return f(tx.Bucket(bucket)) }))
}

func (s *Store) update(ctx context.Context, what string, f func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.wrap(what, s.db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket(bucket)) }))
}

func (s *Store) wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("local store %s: %s: closed: %w", s.path, what, store.ErrUnavailable)
	}
	return fmt.Errorf("local store %s: %s: %w", s.path, what, err)
}

func equals(b *bbolt.Bucket, key string, value []byte) bool {
	present := b.Get([]byte(key))
	return present != nil && bytes.Equal(present, value)
}

func eachWithPrefix(b *bbolt.Bucket, prefix string, f func(key, value []byte) error) error {
	p := []byte(prefix)
	cursor := b.Cursor()
	for key, value := cursor.Seek(p); key != nil && bytes.HasPrefix(key, p); key, value = cursor.Next() {
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}
