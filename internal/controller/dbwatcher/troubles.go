package dbwatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

// troubles holds, by full key, the errors of Kubernetes values that cannot be used. External
// configuration has Feedback instead.
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

// Problems reports the Kubernetes values that cannot be used, except NodeConfigs, which their nodes
// report. The previous values stay in force. It is safe for concurrent use.
func (w *Watcher) Problems(context.Context) []string {
	t := &w.known.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(t.errors)), func(key string) bool {
		return strings.HasPrefix(key, models.KSRPrefix+kubestate.NodeConfigKey(""))
	})
	if len(keys) == 0 {
		return nil
	}
	of := "1 value of the cluster's state in etcd is"
	if len(keys) > 1 {
		of = fmt.Sprintf("%d values of the cluster's state in etcd are", len(keys))
	}
	reason := strings.ReplaceAll(t.errors[keys[0]].Error(), "\n", "; ")
	return []string{strings.ToValidUTF8(fmt.Sprintf("%s INVALID, such as: %.300s: %.300s", of, keys[0], reason), "\uFFFD")}
}

// Trouble returns the error of the Kubernetes value with the full etcd key, or nil. The
// previous value stays in force. Safe for concurrent use.
func (w *Watcher) Trouble(fullKey string) error {
	t := &w.known.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors[fullKey]
}
