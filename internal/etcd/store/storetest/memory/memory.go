// Package memory is a store in memory for tests, with revisions, a history that can be compacted,
// watches, and simulated outages.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/etcd/store"
)

// Store implements store.Watchable and store.Batcher. Use New.
type Store struct {
	mu       sync.Mutex
	values   map[string]store.KV
	revision int64
	// history holds the batches after revision compacted, one per revision.
	history   []store.WatchBatch
	compacted int64
	// changed is closed, and replaced, when watches may have news.
	changed chan struct{}
	// down is the error of all calls during an outage.
	down error
	// epoch counts outages; watches end with their epoch.
	epoch    int
	identity string
}

var (
	_ store.Watchable  = (*Store)(nil)
	_ store.Batcher    = (*Store)(nil)
	_ store.Identified = (*Store)(nil)
	_ store.Dated      = (*Store)(nil)
)

// New returns an empty store with revision 1, like an empty etcd.
func New() *Store {
	return &Store{values: make(map[string]store.KV), revision: 1, compacted: 1, changed: make(chan struct{}), identity: "memory"}
}

// SetAvailable starts or ends an outage. During an outage all calls return store.ErrUnavailable;
// its start ends all watches.
func (s *Store) SetAvailable(available bool) {
	var down error
	if !available {
		down = fmt.Errorf("memory store: outage: %w", store.ErrUnavailable)
	}
	s.setDown(down)
}

// SetDenied starts or stops to refuse all calls except Revision with store.ErrDenied, like an etcd
// that does not know the user. It ends all watches.
func (s *Store) SetDenied(denied bool) {
	var down error
	if denied {
		down = fmt.Errorf("memory store: %w", store.ErrDenied)
	}
	s.setDown(down)
}

func (s *Store) Revision(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil && !errors.Is(err, store.ErrDenied) {
		return 0, err
	}
	return s.revision, nil
}

// Identity implements store.Identified; the default is "memory".
func (s *Store) Identity() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity
}

// SetIdentity simulates another database with the same content.
func (s *Store) SetIdentity(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity = identity
}

// Compact removes the history up to and including the revision.
func (s *Store) Compact(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := min(revision, s.revision) - s.compacted; n > 0 {
		s.history = slices.Clone(s.history[n:])
		s.compacted += n
	}
}

// Wipe removes everything and restarts at revision 1, like an etcd that lost its disk. It ends all
// watches with store.ErrUnavailable.
func (s *Store) Wipe() {
	s.setDown(fmt.Errorf("memory store: wiped: %w", store.ErrUnavailable))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values, s.history, s.revision, s.compacted, s.down = make(map[string]store.KV), nil, 1, 1, nil
}

// Close ends all watches.
func (s *Store) Close() error {
	s.setDown(fmt.Errorf("memory store: closed: %w", store.ErrUnavailable))
	return nil
}

func (s *Store) setDown(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	if down != nil {
		s.epoch++
	}
	s.notify()
}

func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) Get(ctx context.Context, key string) (store.KV, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.KV{}, false, err
	}
	kv, ok := s.values[key]
	return clone(kv), ok, nil
}

func (s *Store) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, 0, err
	}
	var kvs []store.KV
	for key, kv := range s.values {
		if strings.HasPrefix(key, prefix) {
			kvs = append(kvs, clone(kv))
		}
	}
	slices.SortFunc(kvs, func(a, b store.KV) int { return strings.Compare(a.Key, b.Key) })
	return kvs, s.revision, nil
}

func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.Batch(ctx, []store.Change{put(key, value)})
}

func (s *Store) Delete(ctx context.Context, key string) error {
	return s.Batch(ctx, []store.Change{del(key)})
}

func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	return s.change(ctx, func() (changes []store.Change) {
		for key := range s.values {
			if strings.HasPrefix(key, prefix) {
				changes = append(changes, del(key))
			}
		}
		slices.SortFunc(changes, func(a, b store.Change) int { return strings.Compare(a.Key, b.Key) })
		return changes
	})
}

func (s *Store) PutIfNotExists(ctx context.Context, key string, value []byte) (done bool, err error) {
	err = s.change(ctx, func() []store.Change {
		_, exists := s.values[key]
		if done = !exists; done {
			return []store.Change{put(key, value)}
		}
		return nil
	})
	return done, err
}

func (s *Store) CompareAndSwap(ctx context.Context, key string, old, new []byte) (done bool, err error) {
	return s.changeIf(ctx, key, old, put(key, new))
}

func (s *Store) CompareAndDelete(ctx context.Context, key string, old []byte) (done bool, err error) {
	return s.changeIf(ctx, key, old, del(key))
}

// Batch implements store.Batcher; the changes share a revision.
func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	return s.change(ctx, func() []store.Change { return changes })
}

func (s *Store) changeIf(ctx context.Context, key string, old []byte, c store.Change) (done bool, err error) {
	err = s.change(ctx, func() []store.Change {
		kv, exists := s.values[key]
		if done = exists && bytes.Equal(kv.Value, old); done {
			return []store.Change{c}
		}
		return nil
	})
	return done, err
}

// change applies the changes returned by decide at one revision.
func (s *Store) change(ctx context.Context, decide func() []store.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	batch := store.WatchBatch{Revision: s.revision + 1}
	for _, c := range decide() {
		if _, exists := s.values[c.Key]; c.Deleted && !exists {
			continue
		}
		c.KV = clone(c.KV)
		c.Revision = batch.Revision
		if c.Deleted {
			c.Value = nil
			delete(s.values, c.Key)
		} else {
			s.values[c.Key] = c.KV
		}
		batch.Changes = append(batch.Changes, c)
	}
	if len(batch.Changes) > 0 {
		s.revision = batch.Revision
		s.history = append(s.history, batch)
		s.notify()
	}
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.down
}

func (s *Store) Watch(ctx context.Context, revision int64, prefixes ...string) (<-chan store.WatchBatch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if revision == 0 {
		revision = s.revision
	}
	out := make(chan store.WatchBatch)
	go s.watch(ctx, s.epoch, revision, prefixes, out)
	return out, nil
}

func (s *Store) watch(ctx context.Context, epoch int, revision int64, prefixes []string, out chan<- store.WatchBatch) {
	defer close(out)
	for {
		batch, wait := s.next(epoch, revision, prefixes)
		if wait != nil {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return
			}
		}
		revision = batch.Revision
		if len(batch.Changes) == 0 && batch.Err == nil {
			continue
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return
		}
		if batch.Err != nil {
			return
		}
	}
}

// next returns the next batch of a watch that has seen the revision, or a channel to wait for.
func (s *Store) next(epoch int, revision int64, prefixes []string) (store.WatchBatch, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return store.WatchBatch{Revision: revision, Err: s.down}, nil
	case epoch != s.epoch:
		err := fmt.Errorf("memory store: outage during watch: %w", store.ErrUnavailable)
		return store.WatchBatch{Revision: revision, Err: err}, nil
	case revision >= s.revision:
		return store.WatchBatch{}, s.changed
	case revision < s.compacted:
		err := fmt.Errorf("memory store: watch after revision %d: %w", revision, store.ErrCompacted)
		return store.WatchBatch{Revision: s.revision, Err: err}, nil
	}
	batch := store.WatchBatch{Revision: revision + 1}
	for _, c := range s.history[revision-s.compacted].Changes {
		if hasAnyPrefix(c.Key, prefixes) {
			c.KV = clone(c.KV)
			batch.Changes = append(batch.Changes, c)
		}
	}
	return batch, nil
}

func hasAnyPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

func put(key string, value []byte) store.Change {
	return store.Change{KV: store.KV{Key: key, Value: value}}
}

func del(key string) store.Change { return store.Change{KV: store.KV{Key: key}, Deleted: true} }

func clone(kv store.KV) store.KV {
	kv.Value = bytes.Clone(kv.Value)
	return kv
}
