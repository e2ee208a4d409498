package ksr

import (
	"maps"
	"sync"
)

// wanted is the state that the store should have. The source changes it, the
// reflector takes the changes; neither waits for the other, and changes of a
// key that follow each other closely become one. So what waits is bounded by the
// number of objects, however slow the store is.
type wanted struct {
	mu sync.Mutex
	// values by key.
	values map[string][]byte
	// changed has the keys that changed since the last take; nil while changes are not tracked, and the
	// next take is takeAll.
	changed map[string]bool
	// complete: see Changes.
	complete bool
	// wake has a token while there is something to take.
	wake chan struct{}
	// reported is closed by the first report of the source.
	reported chan struct{}
	once     sync.Once
}

func newWanted() *wanted {
	return &wanted{values: make(map[string][]byte), wake: make(chan struct{}, 1), reported: make(chan struct{})}
}

// work is what the reflector takes from the wanted state at a time.
type work struct {
	// values of the changed keys, or of all keys; a changed key without a value
	// is to be deleted.
	values map[string][]byte
	keys   []string

	complete bool
}

// takeChanges returns the changes since the last take.
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

// takeAll returns the whole state, and begins to track changes for takeChanges.
func (w *wanted) takeAll() work {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = make(map[string]bool)
	return work{values: maps.Clone(w.values), complete: w.complete}
}

// forget stops tracking changes until the next takeAll.
func (w *wanted) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = nil
}

// change applies changes that the source reports.
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

// count returns the number of objects.
func (w *wanted) count() (n int, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.values), w.hasReport() && w.complete
}
