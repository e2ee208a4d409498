package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/etcd/store"
)

// Options of a Follower.
type Options struct {
	Store store.Watchable
	// Prefixes of the keys to follow.
	Prefixes []string
	// Apply applies a pair to the state and reports whether the state changed.
	Apply func(s *datastore.State, key string, value []byte) bool
	// Plausible reports whether a state can be used: an empty one may be from a database that lost
	// its data. nil: any state can.
	Plausible func(*datastore.State) bool
	// Hold is how long data missing from a wiped database is kept after it is plausible again.
	// Default 30 s.
	Hold time.Duration
	// Interval is the minimum time between updates; faster changes are merged. Default 100 ms.
	Interval time.Duration
	// Retry is the delay after a failure of etcd. Default 1 s.
	Retry time.Duration
	// Counters may be shared by several Followers; may be nil.
	Counters *Counters
	Log      *slog.Logger
}

// Counters counts requests and received data.
type Counters struct {
	Lists, Watches, Keys, Events, Updates atomic.Int64
	// Bytes of keys and values in lists and changes.
	Bytes atomic.Int64
}

// Follower follows etcd. Run may be called once.
type Follower struct {
	Options

	state    *datastore.State
	updated  bool   // update was called
	revision int64  // of the latest list or change
	identity string // of the database
	// held is the state before the database lost its data, or nil.
	held *datastore.State
	// release is when held expires; zero: not until the state is plausible.
	release time.Time

	mu  sync.Mutex
	err error
}

// New returns a Follower; missing options have their defaults.
func New(o Options) *Follower {
	if o.Hold == 0 {
		o.Hold = 30 * time.Second
	}
	if o.Interval == 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Plausible == nil {
		o.Plausible = func(*datastore.State) bool { return true }
	}
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	return &Follower{Options: o, err: errors.New("etcd has not been read yet")}
}

// Err returns why the state may be outdated, or nil.
func (f *Follower) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *Follower) setErr(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && f.err == nil, err != nil && f.err.Error() != err.Error():
		f.Log.Warn("Watching etcd failed; routes stay unchanged", "error", err)
	case err == nil && f.err != nil:
		f.Log.Info("Watching etcd", "prefixes", f.Prefixes)
	}
	f.err = err
}

// Run calls update with the state, first completely and then after changes, until ctx ends. update
// must not keep the state.
func (f *Follower) Run(ctx context.Context, update func(*datastore.State)) {
	for ctx.Err() == nil {
		err := f.session(ctx, update)
		if ctx.Err() != nil {
			return
		}
		f.setErr(err)
		sleep(ctx, f.Retry)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// session follows etcd until the watch ends.
func (f *Follower) session(ctx context.Context, update func(*datastore.State)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := f.Store.Watch(ctx, 0, f.Prefixes...)
	if err != nil {
		return err
	}
	f.Counters.Watches.Add(int64(len(f.Prefixes)))
	since, err := f.list(ctx)
	if err != nil {
		return err
	}
	pending := true
	for {
		wait := f.tell(update, &pending)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
			pending = true
		case batch, open := <-changes:
			if err := ended(batch, open); err != nil {
				return err
			}
			pending = f.apply(batch, since) || pending
			changed, err := f.collect(ctx, changes, since)
			if err != nil {
				return err
			}
			pending = pending || changed
		}
	}
}

// tell calls update if changes are pending and the state can be used. It returns a channel that
// signals when to call tell again; nil: with the next change.
func (f *Follower) tell(update func(*datastore.State), pending *bool) <-chan time.Time {
	told := f.state
	switch {
	case !f.Plausible(f.state) && !f.updated:
		f.setErr(fmt.Errorf("no block below %s: nothing is changed until one exists", f.Prefixes[0]))
		return nil
	case f.held != nil && (f.release.IsZero() || time.Now().Before(f.release)):
		if f.release.IsZero() && f.Plausible(f.state) {
			f.release = time.Now().Add(f.Hold)
		}
		told = f.merged()
	case f.held != nil:
		f.Log.Info("Datastore restored; removing data that is still missing")
		f.held, *pending = nil, true
	}
	if f.held == nil || f.Plausible(f.state) {
		f.setErr(nil)
	}
	if *pending {
		*pending, f.updated = false, true
		f.Counters.Updates.Add(1)
		update(told)
	}
	if f.held != nil && !f.release.IsZero() {
		return time.After(time.Until(f.release))
	}
	return nil
}

// merged returns the state plus the data that the database lost.
func (f *Follower) merged() *datastore.State {
	m := f.held.Clone()
	for key := range f.state.Problems {
		m.Delete(key)
	}
	m.Merge(f.state)
	return m
}

// collect applies all changes within the interval, so that they become one update.
func (f *Follower) collect(ctx context.Context, changes <-chan store.WatchBatch, since map[string]int64) (changed bool, err error) {
	end := time.NewTimer(f.Interval)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return changed, nil
		case <-end.C:
			return changed, nil
		case batch, open := <-changes:
			if err := ended(batch, open); err != nil {
				return changed, err
			}
			changed = f.apply(batch, since) || changed
		}
	}
}

// ended returns why a watch ended, or nil.
func ended(batch store.WatchBatch, open bool) error {
	if !open {
		return errors.New("the watch ended")
	}
	return batch.Err
}

// apply applies changes newer than the lists.
func (f *Follower) apply(batch store.WatchBatch, since map[string]int64) (changed bool) {
	f.revision = max(f.revision, batch.Revision)
	for _, c := range batch.Changes {
		f.Counters.Events.Add(1)
		f.Counters.Bytes.Add(int64(len(c.Key) + len(c.Value)))
		if c.Revision != 0 && c.Revision <= revisionOf(c.Key, since) {
			continue
		}
		if c.Deleted {
			changed = f.state.Delete(c.Key) || changed
			if f.held != nil {
				changed = f.held.Delete(c.Key) || changed
			}
			continue
		}
		changed = f.Apply(f.state, c.Key, c.Value) || changed
	}
	return changed
}

func revisionOf(key string, since map[string]int64) int64 {
	for prefix, revision := range since {
		if strings.HasPrefix(key, prefix) {
			return revision
		}
	}
	return 0
}

// list reads everything again and returns the revisions of the lists by prefix.
func (f *Follower) list(ctx context.Context) (map[string]int64, error) {
	state, since, first := datastore.NewState(), make(map[string]int64), int64(0)
	for _, prefix := range f.Prefixes {
		kvs, revision, err := f.Store.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		f.Counters.Lists.Add(1)
		f.Counters.Keys.Add(int64(len(kvs)))
		for _, kv := range kvs {
			f.Counters.Bytes.Add(int64(len(kv.Key) + len(kv.Value)))
			f.Apply(state, kv.Key, kv.Value)
		}
		if since[prefix] = revision; first == 0 {
			first = revision
		}
	}
	f.noticeLoss(first)
	f.state = state
	for _, revision := range since {
		f.revision = max(f.revision, revision)
	}
	return since, nil
}

// noticeLoss starts to hold the known state if the database is a different one.
func (f *Follower) noticeLoss(revision int64) {
	identity := f.identity
	if known, ok := f.Store.(store.Identified); ok {
		identity = known.Identity()
	}
	other := f.identity != "" && identity != f.identity
	if f.state != nil && (other || revision < f.revision) {
		f.Log.Error("Datastore lost its data; keeping the last state until it has blocks again",
			"revision", revision, "before", f.revision, "other database", other)
		if f.held == nil {
			f.held = f.state
		} else {
			f.held = f.merged()
		}
		f.release, f.revision = time.Time{}, revision
	}
	f.identity = identity
}
