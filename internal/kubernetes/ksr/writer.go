package ksr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store"
)

// writer writes the wanted values to the store. Only one goroutine uses it, for one term of
// leadership.
type writer struct {
	*Reflector
	store store.Broker
	// stored holds the store's values of our kinds, or nil if unknown, which causes a resync.
	stored map[string][]byte
	// complete is Changes.Complete at the last resync.
	complete bool
	backoff  time.Duration
	watchdog watchdog
	told     published.KSR
}

func newWriter(r *Reflector, s store.Broker) *writer {
	return &writer{Reflector: r, store: s, backoff: r.opts.RetryMin}
}

// run works until ctx ends, and then returns nil, or until another instance leads.
func (w *writer) run(ctx context.Context) error {
	defer w.unknown()
	check := time.NewTicker(w.opts.CheckInterval)
	defer check.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-w.wanted.wake:
			if w.stored == nil && w.Status().Error != "" {
				continue // the retry includes it
			}
			err = w.step(ctx)
		case <-retry.C:
			err = w.step(ctx)
		case <-again.C:
			w.unknown()
			err = w.step(ctx)
		case <-check.C:
			if w.stored == nil {
				continue
			}
			if err = w.checkStore(ctx); errors.Is(err, errDataLost) {
				w.unknown()
				w.log.Warn("the store lost data: writing all objects again", "reason", err)
				err = w.step(ctx)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNotLeader):
			return err
		case err == nil:
			w.backoff = w.opts.RetryMin
			continue
		}
		if w.stored != nil || w.backoff == w.opts.RetryMin {
			w.log.Warn("store failed: resync when it is available again", "error", err)
		}
		w.unknown()
		w.setSynced(err, false)
		retry.Reset(w.backoff)
		again.Reset(w.opts.LateAfter)
		w.backoff = min(2*w.backoff, w.opts.RetryMax)
	}
}

func (w *writer) unknown() {
	w.stored, w.told = nil, published.KSR{}
	w.wanted.forget()
}

func (w *writer) step(ctx context.Context) error {
	if w.stored == nil {
		return w.resync(ctx)
	}
	todo := w.wanted.takeChanges()
	if todo.complete && !w.complete {
		return w.resync(ctx) // the source is now complete: sweep
	}
	w.complete = todo.complete
	if err := w.write(ctx, todo); err != nil {
		return err
	}
	w.setSynced(nil, false)
	return nil
}

func (w *writer) write(ctx context.Context, todo work) error {
	b := batch{writer: w}
	keys := slices.Sorted(slices.Values(todo.keys))
	for _, k := range kinds {
		for _, key := range keysOf(k, keys) {
			if v, ok := todo.values[key]; ok {
				if err := b.put(ctx, k, key, v); err != nil {
					return err
				}
			}
		}
	}
	for _, k := range slices.Backward(kinds) {
		for _, key := range keysOf(k, keys) {
			if _, ok := todo.values[key]; !ok {
				if err := b.delete(ctx, k, key); err != nil {
					return err
				}
			}
		}
	}
	return b.flush(ctx)
}

func keysOf(k *kind, keys []string) []string {
	prefix := k.kind.KeyPrefix()
	from, _ := slices.BinarySearch(keys, prefix)
	n := 0
	for from+n < len(keys) && strings.HasPrefix(keys[from+n], prefix) {
		n++
	}
	return keys[from : from+n]
}

func (w *writer) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.opts.CallTimeout)
}

func errWrite(changes []store.Change, err error) error {
	if len(changes) == 1 {
		return fmt.Errorf("write %s: %w", changes[0].Key, err)
	}
	return fmt.Errorf("write %d keys from %s to %s: %w", len(changes), changes[0].Key, changes[len(changes)-1].Key, err)
}
