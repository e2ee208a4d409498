package kvscheduler

import (
	"slices"
	"strings"
	"sync"
)

// drift collects suspicions until the worker looks at them.
type drift struct {
	mu      sync.Mutex
	queued  bool
	reasons []string
	keys    map[string]struct{}
	all     bool // of everything
}

// ReportDrift queues a downstream resync of the given keys, because their
// southbound state is suspected to have changed behind our back. Keys that are
// not requested, and keys already queued, are ignored. Without keys, everything may have
// changed: the whole southbound is read. The transaction is recorded only if
// something differed; its description then contains the reason. Never blocks.
func (s *Scheduler) ReportDrift(reason string, keys ...string) error {
	d := &s.drift
	d.mu.Lock()
	defer d.mu.Unlock()
	view := s.view()
	fresh := len(keys) == 0 && !d.all
	d.all = d.all || fresh
	for _, key := range keys {
		if _, dup := d.keys[key]; dup {
			continue
		}
		// A key that the running transaction is about to request is not
		// known yet: the worker looks again.
		if n, ok := view.Get(key); ok && n.is(fromSB) {
			continue
		}
		if d.keys == nil {
			d.keys = map[string]struct{}{}
		}
		d.keys[key] = struct{}{}
		fresh = true
	}
	if !fresh {
		return nil
	}
	if len(d.reasons) < 8 && !slices.Contains(d.reasons, reason) {
		d.reasons = append(d.reasons, reason)
	}
	if d.queued {
		return nil
	}
	j := &job{typ: NBTransaction, drift: reason}
	j.opts.resync = DownstreamResync
	if !s.queue.push(j) {
		return ErrClosed
	}
	d.queued = true
	return nil
}

// take returns what was collected, and begins anew. Keys do not count if all of them
// are meant.
func (d *drift) take() (reason string, all bool, keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.keys {
		keys = append(keys, key)
	}
	reason = strings.Join(d.reasons, "; ")
	if reason == "" {
		reason = "unknown reason"
	}
	all = d.all
	d.queued, d.reasons, d.keys, d.all = false, nil, nil, false
	return reason, all, keys
}

// driftKeys returns the base keys among those given that the northbound requests.
func (x *exec) driftKeys(keys []string) []string {
	var requested []string
	for _, key := range x.baseKeys(keys) {
		if n := x.get(key); n != nil && n.want != nil && !n.is(fromSB) {
			requested = append(requested, key)
		}
	}
	return requested
}
