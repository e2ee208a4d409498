package kvscheduler

import (
	"cmp"
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
	all     string // why everything is suspected; "": it is not
	// restoring is why everything is being read; "": it is not.
	restoring string
}

// ReportDrift queues a downstream resync of the given keys, because their
// southbound state is suspected to have changed behind our back. Keys that are
// not requested, and keys already queued, are ignored. The transaction is recorded
// only if something differed; its description then contains the reason.
//
// Without keys, everything may have changed, as when a vswitch was restarted: the
// whole southbound is read, what fails is repeated as DefaultRetry says, the
// transaction is always recorded, and Restoring tells when it is over.
//
// ReportDrift never blocks.
func (s *Scheduler) ReportDrift(reason string, keys ...string) error {
	if reason == "" {
		reason = "unknown reason"
	}
	d := &s.drift
	d.mu.Lock()
	defer d.mu.Unlock()
	view := s.view()
	fresh := len(keys) == 0 && d.all == ""
	if fresh {
		d.all = reason
	}
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

// Restoring returns why the southbound as a whole may not be as requested: the reason
// of a ReportDrift without keys whose transaction has not ended. "": there is none.
func (s *Scheduler) Restoring() (reason string) {
	d := &s.drift
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.restoring, d.all)
}

// restores reports whether the reason for the job is that everything may have changed.
func (j *job) restores() bool { return j.drift != "" && j.opts.keys == nil }

// take returns the collected reports and clears them. A restoration counts as in progress until end
// is called. If all is set, keys are irrelevant.
func (d *drift) take() (reason string, all bool, keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.keys {
		keys = append(keys, key)
	}
	reason = strings.Join(d.reasons, "; ")
	d.restoring = d.all
	d.queued, d.reasons, d.keys, d.all = false, nil, nil, ""
	return reason, d.restoring != "", keys
}

func (d *drift) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restoring = ""
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
