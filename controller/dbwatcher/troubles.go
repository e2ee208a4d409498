package dbwatcher

import "sync"

// troubles say, by full key, why values of the Kubernetes state cannot be decoded. External configuration has its feedback instead.
type troubles struct {
	mu     sync.Mutex
	errors map[string]error
}

// note what became of a value.
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

// keep forgets the values that are not there any more.
func (t *troubles) keep(revisions map[string]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.errors {
		if _, exists := revisions[key]; !exists {
			delete(t.errors, key)
		}
	}
}

// Trouble says why the value of a key of the Kubernetes state (with its prefix) in etcd
// cannot be decoded, so that the one before stays in force. It is nil if all is well. May
// be called from any goroutine.
func (w *Watcher) Trouble(fullKey string) error {
	t := &w.known.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors[fullKey]
}
