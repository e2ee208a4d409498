package ksr

import (
	"maps"
	"sync"

	"google.golang.org/protobuf/proto"
)

// wanted is the state that the store should have. The source changes it, the
// reflector takes the changes; neither waits for the other, and changes of a
// key that follow each other closely become one.
type wanted struct {
	mu sync.Mutex
	// values by key.
	values map[string]value
	// changed are the keys that changed since the last take.
	changed map[string]bool
	// reported: the source has reported; complete: see Changes.
	reported, complete bool
	// wake has a token while there is something to take.
	wake chan struct{}
}

// value is what a key should hold.
type value struct {
	message proto.Message
	data    []byte
}

func newWanted() *wanted {
	return &wanted{values: make(map[string]value), changed: make(map[string]bool), wake: make(chan struct{}, 1)}
}

// work is what the reflector takes from the wanted state.
type work struct {
	// values of the changed keys, or of all keys; a changed key without a value
	// is to be deleted.
	values map[string]value
	keys   []string

	reported, complete bool
}

// takeChanges returns what changed since the last take.
func (w *wanted) takeChanges() work {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := work{values: make(map[string]value, len(w.changed)), reported: w.reported, complete: w.complete}
	for key := range w.changed {
		out.keys = append(out.keys, key)
		if v, ok := w.values[key]; ok {
			out.values[key] = v
		}
	}
	clear(w.changed)
	return out
}

// takeAll returns the whole state.
func (w *wanted) takeAll() work {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.changed)
	return work{values: maps.Clone(w.values), reported: w.reported, complete: w.complete}
}

// change applies what the source reports.
func (w *wanted) change(set map[string]value, deleted []string, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, v := range set {
		w.values[key] = v
		w.changed[key] = true
	}
	for _, key := range deleted {
		delete(w.values, key)
		w.changed[key] = true
	}
	w.reported, w.complete = true, complete
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// count returns the number of objects.
func (w *wanted) count() (n int, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.values), w.reported && w.complete
}
