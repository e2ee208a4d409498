package contivgrpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
)

const saveAgain = 5 * time.Second

// writer saves changes in order, in its own goroutine. It writes all waiting changes at once,
// because disk writes dominate the time.
type writer struct {
	file store.Batcher
	log  *slog.Logger

	mu      sync.Mutex
	waiting []saving
	closed  bool
	ready   chan struct{}
	done    chan struct{}

	// unsaved holds the changes that could not be written yet, by file key. It belongs to the
	// goroutine.
	unsaved map[string]store.Change
	err     error
}

type saving struct {
	client  string
	changes map[string]*Item // nil: delete
	saved   chan<- error
}

func newWriter(file store.Batcher, log *slog.Logger) *writer {
	w := &writer{
		file: file, log: log,
		ready:   make(chan struct{}, 1),
		done:    make(chan struct{}),
		unsaved: make(map[string]store.Change),
	}
	go w.run()
	return w
}

// write queues changes of a client's values. The channel reports once whether they were saved.
func (w *writer) write(client string, changes map[string]*Item) <-chan error {
	saved := make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, saving{client, changes, saved})
	w.wake()
	return saved
}

// close writes everything, ends the goroutine, and returns the error of the last attempt.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.wake()
	w.mu.Unlock()
	<-w.done
	return w.err
}

func (w *writer) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *writer) run() {
	defer close(w.done)
	again := time.NewTimer(saveAgain)
	defer again.Stop()
	for {
		select {
		case <-w.ready:
		case <-again.C:
		}
		w.mu.Lock()
		batch, closed := w.waiting, w.closed
		w.waiting = nil
		w.mu.Unlock()
		w.save(batch)
		if closed {
			return
		}
		if w.err != nil {
			again.Reset(saveAgain)
		}
	}
}

func (w *writer) save(batch []saving) {
	for _, s := range batch {
		for key, item := range s.changes {
			change := store.Change{KV: store.KV{Key: storeKey(s.client, key)}, Deleted: item == nil}
			if item != nil {
				var err error
				if change.Value, err = encodeStored(*item); err != nil {
					w.log.Error("Saving a value failed", "client", s.client, "key", key, "error", err)
					continue
				}
			}
			w.unsaved[change.Key] = change
		}
	}
	changes := make([]store.Change, 0, len(w.unsaved))
	for _, change := range w.unsaved {
		changes = append(changes, change)
	}
	before := w.err
	if w.err = store.Apply(context.Background(), w.file, changes); w.err == nil {
		clear(w.unsaved)
	}
	switch {
	case w.err != nil:
		w.log.Error("Saving the configuration of gRPC clients failed", "error", w.err)
	case before != nil:
		w.log.Info("Saving the configuration of gRPC clients again")
	}
	for _, s := range batch {
		s.saved <- w.err
	}
}
