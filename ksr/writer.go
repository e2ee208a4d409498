package ksr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// writer makes the store hold what is wanted. It is used by one goroutine only.
type writer struct {
	*Reflector
	// stored is what the store holds below the prefixes of our kinds, nil if
	// that is not known: the next step is a resync. A nil value stands for one
	// that is no message of its kind.
	stored map[string]proto.Message
	// complete is Changes.Complete as of the last resync.
	complete bool
	backoff  time.Duration
	watchdog watchdog
}

func newWriter(r *Reflector) *writer { return &writer{Reflector: r, backoff: r.opts.RetryMin} }

// run works until ctx ends.
func (w *writer) run(ctx context.Context) {
	check := time.NewTicker(w.opts.CheckInterval)
	defer check.Stop()
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-w.wanted.wake:
			if w.stored == nil && w.Status().Error != "" {
				continue // the retry will take it along
			}
			err = w.step(ctx)
		case <-retry.C:
			err = w.step(ctx)
		case <-check.C:
			if w.stored == nil {
				continue
			}
			if err = w.checkStore(ctx); errors.Is(err, errDataLost) {
				w.stored = nil
				w.log.Warn("the store lost data: writing all anew", "reason", err)
				err = w.step(ctx)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			w.backoff = w.opts.RetryMin
			continue
		}
		if w.stored != nil || w.backoff == w.opts.RetryMin {
			w.log.Warn("store failed: a resync follows when it is back", "error", err)
		}
		w.stored = nil
		w.setSynced(err, false)
		retry.Reset(w.backoff)
		w.backoff = min(2*w.backoff, w.opts.RetryMax)
	}
}

// step writes what changed, or everything if the content of the store is not
// known.
func (w *writer) step(ctx context.Context) error {
	if w.stored == nil {
		return w.resync(ctx)
	}
	todo := w.wanted.takeChanges()
	if todo.complete && !w.complete {
		w.stored = nil // what could not be swept before, can be now
		return w.resync(ctx)
	}
	w.complete = todo.complete
	return w.write(ctx, todo)
}

// write makes the given keys hold their values.
func (w *writer) write(ctx context.Context, todo work) error {
	keys := slices.Sorted(slices.Values(todo.keys))
	for _, k := range kinds {
		for _, key := range keysOf(k, keys) {
			if v, ok := todo.values[key]; ok {
				if err := w.put(ctx, k, key, v); err != nil {
					return err
				}
			}
		}
	}
	for _, k := range slices.Backward(kinds) {
		for _, key := range keysOf(k, keys) {
			if _, ok := todo.values[key]; !ok {
				if err := w.delete(ctx, k, key); err != nil {
					return err
				}
			}
		}
	}
	w.setSynced(nil, false)
	return nil
}

// keysOf returns those of the sorted keys that belong to the kind.
func keysOf(k *kind, keys []string) []string {
	prefix := k.kind.KeyPrefix()
	from, _ := slices.BinarySearch(keys, prefix)
	n := 0
	for from+n < len(keys) && strings.HasPrefix(keys[from+n], prefix) {
		n++
	}
	return keys[from : from+n]
}

// put writes a value unless the store holds it.
func (w *writer) put(ctx context.Context, k *kind, key string, v value) error {
	old, exists := w.stored[key]
	if exists && old != nil && proto.Equal(old, v.message) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.opts.CallTimeout)
	defer cancel()
	err := w.opts.Store.Put(ctx, key, v.data)
	w.count(k.kind, func(s *Stats) {
		switch {
		case err != nil && exists:
			s.UpdErrors++
		case err != nil:
			s.AddErrors++
		case exists:
			s.Updates++
		default:
			s.Adds++
		}
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	w.stored[key] = v.message
	w.log.Debug("written", "key", key, "new", !exists)
	return nil
}

// delete removes a key that the store holds.
func (w *writer) delete(ctx context.Context, k *kind, key string) error {
	if _, exists := w.stored[key]; !exists {
		return nil
	}
	err := w.remove(ctx, k, key)
	w.count(k.kind, func(s *Stats) {
		if err != nil {
			s.DelErrors++
		} else {
			s.Deletes++
		}
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	delete(w.stored, key)
	w.log.Debug("deleted", "key", key)
	return nil
}

// remove removes a key and, for a node, what else is there because of it; the key
// comes last, so that an interrupted removal is repeated.
func (w *writer) remove(ctx context.Context, k *kind, key string) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.CallTimeout)
	defer cancel()
	if k.kind == Node {
		if err := w.removeNode(ctx, nodeOfKey(key)); err != nil {
			return err
		}
	}
	return w.opts.Store.Delete(ctx, key)
}
