package ifstate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// maxBatch bounds the states in one etcd transaction.
	maxBatch = 100
	// quietPeriod without changes starts a write, so that a burst of CNI ADDs does not cause
	// several writes per interface. longestGather bounds the delay.
	quietPeriod   = 100 * time.Millisecond
	longestGather = 10 * quietPeriod
	// firstRetry is the delay before the second attempt. It doubles up to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// publish is the goroutine that writes to etcd.
func (k *Keeper) publish(ctx context.Context) {
	w := &writer{Keeper: k, prefix: models.NodePrefix(k.Node) + models.InterfaceStatePrefix, limiter: rate.NewLimiter(rate.Limit(k.Rate), max(maxBatch, k.Rate))}
	delay, failing := firstRetry, false
	for {
		select {
		case <-k.news:
		case <-ctx.Done():
			return
		}
		if !k.lull(ctx) {
			return
		}
		for {
			more, err := w.flush(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil && failing {
				k.Log.Info("Publishing interface states again")
				delay, failing = firstRetry, false
			}
			if err == nil && !more {
				break
			}
			if err == nil {
				continue
			}
			if !failing {
				k.Log.Warn("Publishing interface states failed", "error", err)
			}
			failing, w.swept, w.cleaned = true, false, false // some may have been written
			if !pause(ctx, delay) {
				return
			}
			delay = min(2*delay, lastRetry)
		}
	}
}

// lull waits for a moment without changes and reports whether ctx is still active.
func (k *Keeper) lull(ctx context.Context) bool {
	longest := time.After(longestGather)
	for {
		select {
		case <-k.news:
		case <-time.After(quietPeriod):
			return true
		case <-longest:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// writer belongs to the goroutine of publish.
type writer struct {
	*Keeper
	prefix  string
	limiter *rate.Limiter
	// swept is set once all states are queued after a failure, cleaned once stale keys in etcd are
	// queued for deletion.
	swept, cleaned bool
}

// flush writes one batch and reports whether more is pending.
func (w *writer) flush(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	complete := w.complete
	w.mu.Unlock()
	if !w.swept || complete && !w.cleaned {
		if err := w.sweep(ctx, complete); err != nil {
			return true, err
		}
	}
	names, changes := w.take()
	if len(changes) == 0 {
		return false, nil
	}
	if err := w.limiter.WaitN(ctx, len(changes)); err != nil {
		return false, err
	}
	err = store.Apply(ctx, w.Store, changes)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		for _, name := range names {
			w.dirty[name] = true
		}
	}
	return len(w.dirty) > 0, err
}

// sweep queues all interfaces. If all are known, it also queues stale keys in etcd.
func (w *writer) sweep(ctx context.Context, complete bool) error {
	kvs, _, err := w.Store.List(ctx, w.prefix)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kv := range kvs {
		if complete {
			w.dirty[strings.TrimPrefix(kv.Key, w.prefix)] = true
		}
	}
	for name := range w.states {
		w.dirty[name] = true
	}
	w.swept, w.cleaned = true, complete
	return nil
}

// take returns the next batch of changes and the names of their interfaces.
func (w *writer) take() (names []string, changes []store.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names = slices.Sorted(maps.Keys(w.dirty))
	names = names[:min(len(names), maxBatch)]
	for _, name := range names {
		delete(w.dirty, name)
		change := store.Change{KV: store.KV{Key: w.prefix + name}, Deleted: true}
		if state := w.states[name]; state != nil {
			data, err := protojson.Marshal(state)
			if err != nil {
				w.Log.Error("Encoding an interface state failed", "interface", name, "error", err)
				continue
			}
			change.Value, change.Deleted = data, false
		}
		changes = append(changes, change)
	}
	return names, changes
}
