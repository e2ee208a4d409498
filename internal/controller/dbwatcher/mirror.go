package dbwatcher

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/etcd/store"
)

// mirror is the copy of the database in a local store, under the same keys. The node works without
// it: errors are logged, and the copy is completed later.
type mirror struct {
	local store.Broker // may be nil
	log   *slog.Logger
	// stale: the copy lacks changes
	stale bool
	saved origin
}

func (m *mirror) load(ctx context.Context, prefixes []string) (all []store.KV, err error) {
	if m.local == nil {
		return nil, nil
	}
	for _, prefix := range prefixes {
		kvs, _, err := m.local.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, kvs...)
	}
	return all, nil
}

// get returns the mirrored value of a key, or nil.
func (m *mirror) get(ctx context.Context, key string) []byte {
	if m.local == nil {
		return nil
	}
	kv, _, err := m.local.Get(ctx, key)
	if err != nil {
		return nil
	}
	return kv.Value
}

// replace makes the mirror equal to the snapshot, but keeps values that could not be decoded. It
// writes only differences.
func (m *mirror) replace(ctx context.Context, prefixes []string, s snapshot, o origin) {
	if m.local == nil {
		return
	}
	have, err := m.load(ctx, prefixes)
	if err != nil {
		m.failed(err)
		return
	}
	obsolete := make(map[string][]byte, len(have))
	for _, kv := range have {
		obsolete[kv.Key] = kv.Value
	}
	var changes []store.Change
	for _, kv := range s.valid {
		if value, ok := obsolete[kv.Key]; !ok || !bytes.Equal(value, kv.Value) {
			changes = append(changes, store.Change{KV: kv})
		}
		delete(obsolete, kv.Key)
	}
	for key := range obsolete {
		if !s.undecoded[key] {
			changes = append(changes, store.Change{KV: store.KV{Key: key}, Deleted: true})
		}
	}
	if m.write(ctx, changes, o) {
		m.stale = false
	}
}

func (m *mirror) apply(ctx context.Context, changes []store.Change, o origin) {
	if m.local != nil {
		m.write(ctx, changes, o)
	}
}

func (m *mirror) write(ctx context.Context, changes []store.Change, o origin) bool {
	changes = m.withOrigin(changes, o)
	if len(changes) == 0 {
		return true
	}
	if err := store.Apply(ctx, m.local, changes); err != nil {
		m.failed(err)
		return false
	}
	m.saved = o
	return true
}

func (m *mirror) failed(err error) {
	if !m.stale {
		m.log.Error("Writing the local mirror failed", "error", err)
	}
	m.stale = true
}
