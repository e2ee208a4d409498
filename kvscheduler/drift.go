package kvscheduler

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// drift collects drift reports until the worker processes them.
type drift struct {
	mu         sync.Mutex
	queued     bool
	reasons    []string
	keys       map[string]struct{}
	suspectAll string // reason of a report about the whole southbound, or ""
	// restoring is the reason of the report about the whole southbound that is being processed, or "".
	restoring string
}

// ReportDrift queues a downstream resync of the keys, because their southbound state may have changed
// without the scheduler. It ignores keys that are not requested or already queued. The transaction
// is recorded only if it found a difference; its description contains the reason.
//
// Without keys, the whole southbound may have changed, for example because a vswitch restarted. The
// transaction then reads everything, repeats failed operations according to DefaultRetry, and is
// always recorded. Restoring returns the reason until the transaction has ended.
//
// ReportDrift never blocks. It returns ErrClosed after Close.
func (s *Scheduler) ReportDrift(reason string, keys ...string) error {
	if reason == "" {
		reason = "unknown reason"
	}
	d := &s.drift
	d.mu.Lock()
	defer d.mu.Unlock()
	view := s.view()
	fresh := len(keys) == 0 && d.suspectAll == ""
	if fresh {
		d.suspectAll = reason
	}
	for _, key := range keys {
		if _, dup := d.keys[key]; dup {
			continue
		}
		// The running transaction may be about to request the key, so the worker filters unknown
		// keys later.
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

// Restoring returns the reason of the oldest unfinished ReportDrift without keys, or "". Until it is
// finished, the southbound may differ from the requests.
func (s *Scheduler) Restoring() (reason string) {
	d := &s.drift
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.restoring, d.suspectAll)
}

// restores reports whether the job is the resync of a drift report without keys.
func (j *job) restores() bool { return j.drift != "" && j.opts.keys == nil }

// drain returns and clears the collected reports. If all is set, the keys are irrelevant, and
// Restoring returns the reason until end is called.
func (d *drift) drain() (reason string, all bool, keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.keys {
		keys = append(keys, key)
	}
	reason = strings.Join(d.reasons, "; ")
	d.restoring = d.suspectAll
	d.queued, d.reasons, d.keys, d.suspectAll = false, nil, nil, ""
	return reason, d.restoring != "", keys
}

func (d *drift) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restoring = ""
}

// driftKeys returns the base keys of the given keys, as far as the northbound requests them.
func (v *view) driftKeys(keys []string) []string {
	var requested []string
	for _, key := range v.baseKeys(keys) {
		if n := v.get(key); n != nil && n.want != nil && !n.is(fromSB) {
			requested = append(requested, key)
		}
	}
	return requested
}
