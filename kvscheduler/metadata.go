package kvscheduler

import (
	"fmt"
	"sort"
	"sync"
)

// metadataMap holds the metadata of the values of one descriptor. It is the only part of the state
// that shows the changes of a running transaction to callbacks.
type metadataMap struct {
	label func(key string) string

	mu    sync.RWMutex
	byKey map[string]any // by label
	index map[string]*metadataIndex
}

type metadataIndex struct {
	keysOf func(any) []string
	labels map[string]map[string]struct{} // labels by secondary key
}

func newMetadataMap(label func(string) string) *metadataMap {
	return &metadataMap{label: label, byKey: map[string]any{}, index: map[string]*metadataIndex{}}
}

// set replaces the metadata of a key. It returns a panic of an index function as an error.
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

// Metadata returns the metadata of the value with the label, and whether it exists. It may be
// called from callbacks, and shows the changes of the running transaction.
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

// MetadataLabels returns the sorted labels of the values with the secondary key in one of the
// descriptor's MetadataIndexes. It fails if the descriptor or the index does not exist. It may be
// called from callbacks, and shows the changes of the running transaction.
func (s *Scheduler) MetadataLabels(descriptor, index, secondaryKey string) ([]string, error) {
	h := s.registry.Load().byName[descriptor]
	if h == nil || h.metadata == nil || h.metadata.index[index] == nil {
		return nil, fmt.Errorf("descriptor %q has no metadata index %q", descriptor, index)
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
