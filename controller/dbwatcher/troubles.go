package dbwatcher

import "sync"

// troubles holds, by full key, the decoding errors of Kubernetes values. External configuration has
// Feedback instead.
type troubles struct {
	mu     sync.Mutex
	errors map[string]error
}

// note sets or, with nil, removes the error of a value.
func (t *troubles) note(fullKey string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.errors, fullKey)
		return
	}
	if t.errors == nil {
		t.errors = make(map[string]error)
	}
	t.errors[fullKey] = err
}

func (t *troubles) keep(revisions map[string]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.errors {
		if _, exists := revisions[key]; !exists {
			delete(t.errors, key)
		}
	}
}

// Trouble returns the decoding error of the Kubernetes value with the full etcd key, or nil. The
// previous value stays in force. Safe for concurrent use.
func (w *Watcher) Trouble(fullKey string) error {
	t := &w.known.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors[fullKey]
}
