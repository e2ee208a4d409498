package ksr

import (
	"maps"
	"sync"
)

// wanted is the desired state of the store. The source changes it, the reflector takes changes, and
// neither waits for the other. Successive changes of a key are merged, so its size is bounded by
// the number of objects.
type wanted struct {
	mu     sync.Mutex
	values map[string][]byte
	// changed holds the keys changed since the last take. It is nil before takeAll.
	changed  map[string]bool
	complete bool
	wake     chan struct{}
	// reported is closed by the first report of the source.
	reported chan struct{}
	once     sync.Once
}

func newWanted() *wanted {
	return &wanted{values: make(map[string][]byte), wake: make(chan struct{}, 1), reported: make(chan struct{})}
}

type work struct {
	// values of the changed keys, or of all keys. A changed key without a value is to be deleted.
	values map[string][]byte
	keys   []string

	complete bool
}

func (w *wanted) takeChanges() work {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := work{values: make(map[string][]byte, len(w.changed)), complete: w.complete}
	for key := range w.changed {
		out.keys = append(out.keys, key)
		if v, ok := w.values[key]; ok {
			out.values[key] = v
		}
	}
	clear(w.changed)
	return out
}

// takeAll returns the whole state and starts tracking changes for takeChanges.
func (w *wanted) takeAll() work {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = make(map[string]bool)
	return work{values: maps.Clone(w.values), complete: w.complete}
}

// forget stops tracking changes until takeAll.
func (w *wanted) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = nil
}

func (w *wanted) change(set map[string][]byte, deleted []string, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, v := range set {
		w.values[key] = v
		w.mark(key)
	}
	for _, key := range deleted {
		delete(w.values, key)
		w.mark(key)
	}
	w.complete = complete
	w.once.Do(func() { close(w.reported) })
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *wanted) mark(key string) {
	if w.changed != nil {
		w.changed[key] = true
	}
}

func (w *wanted) hasReport() bool {
	select {
	case <-w.reported:
		return true
	default:
		return false
	}
}

func (w *wanted) count() (n int, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.values), w.hasReport() && w.complete
}
