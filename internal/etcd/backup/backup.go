// Package backup keeps a second copy of data that a node must not lose, in case its local file is
// lost or damaged.
//
//	           ┌──> first    everything
//	Store ─────┤
//	           └──> second   keys with the prefix
//
//	at start, if first has no keys with the prefix: second ──> first, else first ──> second
//
// The first store is authoritative: a write that it refuses is not made in the second, and a write
// that only the second refuses succeeds. The second store then lags until the next start.
package backup

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/contiv/contiv/internal/etcd/store"
)

type Store struct {
	first, second store.Batcher
	prefix        string
	log           *slog.Logger
}

var _ store.Batcher = (*Store)(nil)

// New returns a Store that copies the keys with the prefix from first to second. If first has no
// such keys, it is restored from second; restored is the number of restored pairs.
func New(ctx context.Context, first, second store.Batcher, prefix string, log *slog.Logger) (s *Store, restored int, err error) {
	s = &Store{first: first, second: second, prefix: prefix, log: log}
	have, _, err := first.List(ctx, prefix)
	if err != nil {
		return nil, 0, fmt.Errorf("read the local store: %w", err)
	}
	if len(have) > 0 {
		if err := update(ctx, second, prefix, have); err != nil {
			s.lagging(err)
		}
		return s, 0, nil
	}
	lost, _, err := second.List(ctx, prefix)
	if err == nil {
		err = update(ctx, first, prefix, lost)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("restore the local store from its copy: %w", err)
	}
	return s, len(lost), nil
}

// update makes the pairs the only ones with the prefix in a store.
func update(ctx context.Context, to store.Batcher, prefix string, want []store.KV) error {
	have, _, err := to.List(ctx, prefix)
	if err != nil {
		return err
	}
	values := make(map[string][]byte, len(have))
	for _, kv := range have {
		values[kv.Key] = kv.Value
	}
	var changes []store.Change
	for _, kv := range want {
		if value, ok := values[kv.Key]; !ok || !bytes.Equal(value, kv.Value) {
			changes = append(changes, store.Change{KV: kv})
		}
		delete(values, kv.Key)
	}
	for key := range values {
		changes = append(changes, store.Change{KV: store.KV{Key: key}, Deleted: true})
	}
	return store.Apply(ctx, to, changes)
}

func (s *Store) lagging(err error) {
	s.log.Warn("Writing the copy of the local store failed", "error", err)
}

// repeat applies changes that were made in the first store to the second.
func (s *Store) repeat(ctx context.Context, changes ...store.Change) {
	var ours []store.Change
	for _, c := range changes {
		if strings.HasPrefix(c.Key, s.prefix) {
			ours = append(ours, c)
		}
	}
	if err := store.Apply(ctx, s.second, ours); err != nil {
		s.lagging(err)
	}
}

// Get implements store.Broker with the first store.
func (s *Store) Get(ctx context.Context, key string) (store.KV, bool, error) {
	return s.first.Get(ctx, key)
}

// List implements store.Broker with the first store.
func (s *Store) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	return s.first.List(ctx, prefix)
}

func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.Batch(ctx, []store.Change{{KV: store.KV{Key: key, Value: value}}})
}

func (s *Store) Delete(ctx context.Context, key string) error {
	return s.Batch(ctx, []store.Change{{KV: store.KV{Key: key}, Deleted: true}})
}

func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	if err := s.first.DeletePrefix(ctx, prefix); err != nil {
		return err
	}
	both := prefix
	if strings.HasPrefix(s.prefix, prefix) {
		both = s.prefix
	} else if !strings.HasPrefix(prefix, s.prefix) {
		return nil
	}
	if err := s.second.DeletePrefix(ctx, both); err != nil {
		s.lagging(err)
	}
	return nil
}

func (s *Store) PutIfNotExists(ctx context.Context, key string, value []byte) (bool, error) {
	done, err := s.first.PutIfNotExists(ctx, key, value)
	if done && err == nil {
		s.repeat(ctx, store.Change{KV: store.KV{Key: key, Value: value}})
	}
	return done, err
}

func (s *Store) CompareAndSwap(ctx context.Context, key string, old, new []byte) (bool, error) {
	done, err := s.first.CompareAndSwap(ctx, key, old, new)
	if done && err == nil {
		s.repeat(ctx, store.Change{KV: store.KV{Key: key, Value: new}})
	}
	return done, err
}

func (s *Store) CompareAndDelete(ctx context.Context, key string, old []byte) (bool, error) {
	done, err := s.first.CompareAndDelete(ctx, key, old)
	if done && err == nil {
		s.repeat(ctx, store.Change{KV: store.KV{Key: key}, Deleted: true})
	}
	return done, err
}

func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	if err := s.first.Batch(ctx, changes); err != nil {
		return err
	}
	s.repeat(ctx, changes...)
	return nil
}

// Close closes both stores.
func (s *Store) Close() error {
	err := s.first.Close()
	if second := s.second.Close(); err == nil {
		err = second
	}
	return err
}
