package subsystem

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// drift holds the changes that a watcher has not received yet.
type drift struct {
	reasons []string // the first maxReasons, and reasons without keys
	others  int      // number of further reasons
	keys    map[string]struct{}
	all     bool // everything may have changed
}

// maxReasons is the number of reported reasons; a burst can concern thousands of objects.
const maxReasons = 4

func (d *drift) reason() string {
	text := strings.Join(d.reasons, "; ")
	if d.others > 0 {
		text += fmt.Sprintf("; and %d more", d.others)
	}
	return text
}

// mailbox collects changes until its watcher takes them.
type mailbox struct {
	mu    sync.Mutex
	drift drift
	full  chan struct{} // has room for one
}

func (b *mailbox) put(reason string, keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch d := &b.drift; {
	case slices.Contains(d.reasons, reason):
	case len(keys) == 0: // the most important comes first
		d.reasons = slices.Insert(d.reasons, 0, reason)
	case len(d.reasons) < maxReasons:
		d.reasons = append(d.reasons, reason)
	default:
		d.others++
	}
	if b.drift.keys == nil {
		b.drift.keys = map[string]struct{}{}
	}
	for _, key := range keys {
		b.drift.keys[key] = struct{}{}
	}
	b.drift.all = b.drift.all || len(keys) == 0
	select {
	case b.full <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() (reason string, keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.drift
	b.drift = drift{}
	if !d.all {
		keys = slices.Sorted(maps.Keys(d.keys))
	}
	return d.reason(), keys
}
