package ksr

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// resync reads the store and writes the wanted values: mark and sweep. It stops at the first error.
func (w *writer) resync(ctx context.Context) error {
	if !w.wanted.hasReport() {
		return nil
	}
	if err := w.claimFormat(ctx); err != nil {
		w.countResErrors()
		return err
	}
	todo := w.wanted.takeAll()
	w.watchdog.reset()
	before := w.Stats()
	stored := make(map[string][]byte)
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
	// The next check must know what was written.
	if err := w.checkStore(ctx); err != nil {
		w.stored = nil
		return err
	}
	return nil
}

func (w *writer) list(ctx context.Context, k *kind, stored map[string][]byte) error {
	ctx, cancel := w.call(ctx)
	defer cancel()
	kvs, _, err := w.store.List(ctx, k.kind.KeyPrefix())
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	for _, kv := range kvs {
		stored[kv.Key] = kv.Value
	}
	return nil
}

func (w *writer) writeAll(ctx context.Context, todo work) error {
	if todo.complete {
		todo.keys = slices.Collect(maps.Keys(w.stored))
	}
	for key := range todo.values {
		if _, held := w.stored[key]; !held || !todo.complete {
			todo.keys = append(todo.keys, key)
		}
	}
	if err := w.write(ctx, todo); err != nil {
		w.countResErrors()
		return err
	}
	for _, k := range kinds {
		w.count(k.kind, func(s *Stats) { s.Resyncs++ })
	}
	return nil
}

func (w *writer) countResErrors() {
	for _, k := range kinds {
		w.count(k.kind, func(s *Stats) { s.ResErrors++ })
	}
}

func (w *writer) logResync(before map[Kind]Stats, objects int, complete bool) {
	var adds, updates, deletes int64
	for k, s := range w.Stats() {
		adds += s.Adds - before[k].Adds
		updates += s.Updates - before[k].Updates
		deletes += s.Deletes - before[k].Deletes
	}
	w.log.Info("resync of the store completed", "objects", objects, "added", adds, "updated", updates, "deleted", deletes, "swept", complete)
}
