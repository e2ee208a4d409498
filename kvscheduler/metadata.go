package kvscheduler

import (
	"fmt"
	"sort"
	"sync"
)

// metadataMap holds the metadata of one descriptor's values by label. It is
// the one part of the state that callbacks see change while a transaction runs.
type metadataMap struct {
	label func(key string) string

	mu    sync.RWMutex
	byKey map[string]any // by label
	index map[string]*metadataIndex
}

type metadataIndex struct {
	keysOf func(any) []string
	labels map[string]map[string]struct{} // secondary key -> labels
}

func newMetadataMap(label func(string) string) *metadataMap {
	return &metadataMap{label: label, byKey: map[string]any{}, index: map[string]*metadataIndex{}}
}

// set replaces the metadata of a key. A panic in an index function is returned.
func (m *metadataMap) set(key string, meta any) (err error) {
	defer caught(&err, key, "MetadataIndexes")
	label := m.label(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unindex(label)
	m.byKey[label] = meta
	for _, ix := range m.index {
		for _, k := range ix.keysOf(meta) {
			if ix.labels[k] == nil {
				ix.labels[k] = map[string]struct{}{}
			}
			ix.labels[k][label] = struct{}{}
		}
	}
	return nil
}

func (m *metadataMap) unset(key string) (err error) {
	defer caught(&err, key, "MetadataIndexes")
	label := m.label(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unindex(label)
	delete(m.byKey, label)
	return nil
}

func (m *metadataMap) unindex(label string) {
	old, ok := m.byKey[label]
	if !ok {
		return
	}
	for _, ix := range m.index {
		for _, k := range ix.keysOf(old) {
			delete(ix.labels[k], label)
			if len(ix.labels[k]) == 0 {
				delete(ix.labels, k)
			}
		}
	}
}

// Metadata returns the metadata of a value by descriptor name and label. It
// may be called from callbacks and sees what the running transaction did.
func (s *Scheduler) Metadata(descriptor, label string) (any, bool) {
	h := s.registry.Load().byName[descriptor]
	if h == nil || h.metadata == nil {
		return nil, false
	}
	h.metadata.mu.RLock()
	defer h.metadata.mu.RUnlock()
	meta, ok := h.metadata.byKey[label]
	return meta, ok
}

// MetadataLabels returns the labels of the values whose metadata has the given
// secondary key, sorted. The index is one of the descriptor's MetadataIndexes;
// it is an error if there is no such descriptor or index. May be called
// from callbacks.
func (s *Scheduler) MetadataLabels(descriptor, index, secondaryKey string) ([]string, error) {
	h := s.registry.Load().byName[descriptor]
	if h == nil || h.metadata == nil || h.metadata.index[index] == nil {
		return nil, fmt.Errorf("there is no metadata index %q of a descriptor %q", index, descriptor)
	}
	h.metadata.mu.RLock()
	defer h.metadata.mu.RUnlock()
	var labels []string
	for l := range h.metadata.index[index].labels[secondaryKey] {
		labels = append(labels, l)
	}
	sort.Strings(labels)
	return labels, nil
}
