package ksr

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// resync reads what the store holds and makes it hold what is wanted: mark and
// sweep. The first error ends it.
func (w *writer) resync(ctx context.Context) error {
	todo := w.wanted.takeAll()
	if !todo.reported {
		return nil
	}
	w.watchdog.reset()
	before := w.Stats()
	stored := make(map[string]proto.Message)
	for _, k := range kinds {
		if err := w.list(ctx, k, stored); err != nil {
			w.count(k.kind, func(s *Stats) { s.ResErrors++ })
			return err
		}
	}
	w.stored = stored
	if err := w.writeAll(ctx, todo); err != nil {
		w.stored = nil
		return err
	}
	w.complete = todo.complete
	w.setSynced(nil, true)
	w.logResync(before, len(todo.values), todo.complete)
	return nil
}

// list adds what the store holds of a kind to stored.
func (w *writer) list(ctx context.Context, k *kind, stored map[string]proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.CallTimeout)
	defer cancel()
	kvs, _, err := w.opts.Store.List(ctx, k.kind.KeyPrefix())
	if err != nil {
		return fmt.Errorf("read what the store holds: %w", err)
	}
	for _, kv := range kvs {
		msg := k.message()
		if err := protojson.Unmarshal(kv.Value, msg); err != nil {
			msg = nil
		}
		stored[kv.Key] = msg
	}
	return nil
}

// writeAll writes what is wanted and deletes what is not; the latter only if
// the source sees everything.
func (w *writer) writeAll(ctx context.Context, todo work) error {
	keys := slices.Sorted(maps.Keys(todo.values))
	for _, k := range kinds {
		for _, key := range keysOf(k, keys) {
			if err := w.put(ctx, k, key, todo.values[key]); err != nil {
				w.count(k.kind, func(s *Stats) { s.ResErrors++ })
				return err
			}
		}
	}
	if todo.complete {
		held := slices.Sorted(maps.Keys(w.stored))
		for _, k := range slices.Backward(kinds) {
			for _, key := range keysOf(k, held) {
				if _, ok := todo.values[key]; ok {
					continue
				}
				if err := w.delete(ctx, k, key); err != nil {
					w.count(k.kind, func(s *Stats) { s.ResErrors++ })
					return err
				}
			}
		}
	}
	for _, k := range kinds {
		w.count(k.kind, func(s *Stats) { s.Resyncs++ })
	}
	return nil
}

func (w *writer) logResync(before map[Kind]Stats, objects int, complete bool) {
	var adds, updates, deletes int64
	for k, s := range w.Stats() {
		adds += s.Adds - before[k].Adds
		updates += s.Updates - before[k].Updates
		deletes += s.Deletes - before[k].Deletes
	}
	w.log.Info("resync of the store is done", "objects", objects, "added", adds, "updated", updates, "deleted", deletes, "swept", complete)
}
