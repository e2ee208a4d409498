package ksr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/health/published"
	"github.com/contiv/contiv/store"
)

// writer makes the store hold what is wanted. It is used by one goroutine only,
// and for one term: while its instance leads, if there are several.
type writer struct {
	*Reflector
	store store.Broker
	// stored is what the store holds below the prefixes of our kinds, nil if
	// that is not known: the next step is a resync.
	stored map[string][]byte
	// complete is Changes.Complete as of the last resync.
	complete bool
	backoff  time.Duration
	watchdog watchdog
	// told is the status that was published last.
	told published.KSR
}

func newWriter(r *Reflector, s store.Broker) *writer {
	return &writer{Reflector: r, store: s, backoff: r.opts.RetryMin}
}

// run works until ctx ends, and returns nil, or until the store says that
// another instance leads.
func (w *writer) run(ctx context.Context) error {
	defer w.unknown()
	check := time.NewTicker(w.opts.CheckInterval)
	defer check.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
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
				w.unknown()
				w.log.Warn("the store lost data: writing all anew", "reason", err)
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
			w.log.Warn("store failed: a resync follows when it is back", "error", err)
		}
		w.unknown()
		w.setSynced(err, false)
		retry.Reset(w.backoff)
		w.backoff = min(2*w.backoff, w.opts.RetryMax)
	}
}

// unknown says that it is not known what the store holds.
func (w *writer) unknown() {
	w.stored, w.told = nil, published.KSR{}
	w.wanted.forget()
}

// step writes what changed, or everything if the content of the store is not
// known.
func (w *writer) step(ctx context.Context) error {
	if w.stored == nil {
		return w.resync(ctx)
	}
	todo := w.wanted.takeChanges()
	if todo.complete && !w.complete {
		return w.resync(ctx) // what could not be swept before, can be now
	}
	w.complete = todo.complete
	if err := w.write(ctx, todo); err != nil {
		return err
	}
	w.setSynced(nil, false)
	return nil
}

// write makes the given keys hold their values.
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

// call bounds a call of the store.
func (w *writer) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.opts.CallTimeout)
}

// errWrite says what failed.
func errWrite(changes []store.Change, err error) error {
	if len(changes) == 1 {
		return fmt.Errorf("write %s: %w", changes[0].Key, err)
	}
	return fmt.Errorf("write %d keys from %s to %s: %w", len(changes), changes[0].Key, changes[len(changes)-1].Key, err)
}
