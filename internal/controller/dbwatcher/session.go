package dbwatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

// maxGathered is the size at which gather stops to add batches. Batches are not split.
const maxGathered = 500

const formatKey = models.KSRPrefix + kubestate.FormatKey

// session is the lifetime of one watch.
type session struct {
	*Watcher
	ctx     context.Context
	opening opening
	// snapshots are the revisions of the last snapshots by prefix. A snapshot contains the changes
	// up to its revision.
	snapshots map[string]int64
	resyncDue *time.Timer
	requested []request
	// behind: the event loop missed changes and gets no events before a resync
	behind bool
	// fellBehind is the last time behind was set.
	fellBehind time.Time
}

// session watches the database until an error and reports whether the watch was established. The
// first session loads the mirror while it waits for the database.
func (w *Watcher) session(ctx context.Context, first bool) (established bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := w.open(ctx)
	if first {
		w.loadMirror(ctx)
	}
	changes, err := w.watch(ctx, o)
	if err != nil {
		return false, err
	}
	s := &session{Watcher: w, ctx: ctx, opening: o, snapshots: make(map[string]int64), resyncDue: time.NewTimer(0)}
	s.resyncDue.Stop()
	defer s.resyncDue.Stop()
	return true, s.run(changes)
}

// opening is a watch, and its first snapshot, in progress: reading a large database takes about as
// long as decoding its mirror.
type opening struct {
	watch    chan watched // one element
	snapshot chan listing // one element, if the watch is established; nil if not read ahead
}

type watched struct {
	changes <-chan store.WatchBatch
	err     error
}

// listing is the content of the database; revisions are by prefix.
type listing struct {
	all       []store.KV
	revisions map[string]int64
	err       error
}

// open starts the watch and the read of the database. During a recovery it only watches: KSR has to
// refill the database first.
func (w *Watcher) open(ctx context.Context) opening {
	o := opening{watch: make(chan watched, 1)}
	if w.recovery == nil {
		o.snapshot = make(chan listing, 1)
	}
	prefixes := w.known.prefixes()
	go func() {
		changes, err := w.Remote.Watch(ctx, 0, prefixes...)
		o.watch <- watched{changes, err}
		if err == nil && o.snapshot != nil {
			o.snapshot <- list(ctx, w.Remote, prefixes)
		}
	}()
	return o
}

// watch waits until the watch is established, and sends the local resync when it is due.
func (w *Watcher) watch(ctx context.Context, o opening) (<-chan store.WatchBatch, error) {
	select {
	case r := <-o.watch:
		return r.changes, r.err
	case <-w.localDue.C:
		w.localResync(ctx)
	}
	r := <-o.watch
	return r.changes, r.err
}

func (s *session) run(changes <-chan store.WatchBatch) error {
	probe := time.NewTicker(s.Config.RemoteDBProbingInterval.Std())
	defer probe.Stop()
	// The snapshot precedes all changes: one that was read ahead lacks some of them.
	if err := s.resync(); err != nil {
		return err
	}
	for {
		var err error
		select {
		case batch, ok := <-changes:
			if !ok {
				return s.ctx.Err()
			}
			err = s.receive(gather(batch, changes))
		case <-s.requests:
			err = s.resync()
		case <-s.resyncDue.C:
			err = s.resync()
		case <-probe.C:
			err = s.probe()
			// A slow probe must not starve the other cases.
			probe.Reset(s.Config.RemoteDBProbingInterval.Std())
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) resync() error {
	if s.waitsForKSR() {
		s.localResync(s.ctx)
		s.resyncDue.Reset(s.recovery.interval)
		return nil
	}
	all, revisions, err := s.list()
	if err != nil {
		return err
	}
	if s.recovering(all, revisions) {
		s.behind = true
		s.localResync(s.ctx) // the node need not wait for its first resync
		s.resyncDue.Reset(s.recovery.interval)
		return nil
	}
	s.snapshots = revisions
	snapshot := s.known.replace(all)
	s.origin.Revision = s.lastRevision
	s.mirror.replace(s.ctx, s.known.prefixes(), snapshot, s.origin)
	snapshot.resync.Outage = s.outage()
	requests := s.requestsIn(all)
	processed := s.Feedback.Replaced(snapshot.given, requests.names)
	snapshot.resync.Processed = func(record *controller.EventRecord) {
		processed(record)
		requests.answer(s.Feedback, record)
	}
	if err := s.Loop.PushEvent(s.ctx, snapshot.resync); err != nil {
		return s.refused(err)
	}
	requests.taken(s.Watcher)
	s.requested = nil // the snapshot contains them
	s.behind, s.resynced = false, true
	s.setConnected(nil)
	return nil
}

// list returns the content of the database, or the snapshot read ahead. It fails with
// kubestate.ErrNewer if the format is newer than this version.
func (s *session) list() (all []store.KV, revisions map[string]int64, err error) {
	var l listing
	if s.opening.snapshot != nil {
		l = <-s.opening.snapshot
		s.opening.snapshot = nil
	} else {
		l = list(s.ctx, s.Remote, s.known.prefixes())
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	for _, kv := range l.all {
		if kv.Key == formatKey {
			return l.all, l.revisions, kubestate.CheckFormat(kv.Value)
		}
	}
	return l.all, l.revisions, nil
}

func list(ctx context.Context, remote store.Watchable, prefixes []string) listing {
	l := listing{revisions: make(map[string]int64)}
	for _, prefix := range prefixes {
		kvs, revision, err := remote.List(ctx, prefix)
		if err != nil {
			return listing{err: err}
		}
		l.revisions[prefix] = revision
		l.all = append(l.all, kvs...)
	}
	return l
}

// gather adds the waiting batches to the first one: they share an event and a write of the mirror,
// the slowest step.
func gather(batch store.WatchBatch, waiting <-chan store.WatchBatch) store.WatchBatch {
	for len(batch.Changes) < maxGathered && batch.Err == nil {
		select {
		case next, ok := <-waiting:
			if !ok {
				return batch // the next receive notices it
			}
			batch.Changes = append(batch.Changes, next.Changes...)
			batch.Revision, batch.Err = next.Revision, next.Err
		default:
			return batch
		}
	}
	return batch
}

// receive sends the changes of a batch as events and returns the error of the batch.
func (s *session) receive(batch store.WatchBatch) error {
	if err := s.receiveChanges(batch); err != nil {
		return err
	}
	return batch.Err
}

func (s *session) receiveChanges(batch store.WatchBatch) error {
	var fresh []store.Change
	for _, change := range batch.Changes {
		if change.Key == formatKey && !change.Deleted {
			if err := kubestate.CheckFormat(change.Value); err != nil {
				return err
			}
		}
		if revision, ok := s.snapshots[s.known.prefixOf(change.Key)]; ok && change.Revision > revision {
			fresh = append(fresh, change)
			s.origin.Revision = max(s.origin.Revision, change.Revision)
			s.origin.Reflected = s.origin.Reflected || change.Key == reflectedKey && !change.Deleted
		}
	}
	n := s.known.update(fresh)
	// The event loop does not wait for the disk.
	defer s.mirror.apply(s.ctx, n.mirrored, s.origin)
	processed := s.Feedback.Changed(n.given)
	s.follow(fresh)
	if s.behind {
		return nil
	}
	for _, event := range n.kube {
		if err := s.Loop.PushEvent(s.ctx, event); err != nil {
			return s.refused(err)
		}
	}
	if len(n.external) > 0 {
		event := &controller.ExternalConfigChange{Source: controller.DatabaseSource, Changes: n.external, Processed: processed}
		if err := s.Loop.PushEvent(s.ctx, event); err != nil {
			return s.refused(err)
		}
	}
	return s.pushRequested()
}

// burstOver is how long after a full queue the rest of a burst has arrived.
const burstOver = 100 * time.Millisecond

// refused handles events that the loop refused. If its queue is full, a resync replaces them; until
// then changes are only mirrored. It follows soon, but at most once per probing interval, because
// it reads the whole database.
func (s *session) refused(err error) error {
	if !errors.Is(err, controller.ErrQueueFull) {
		return fmt.Errorf("event loop refuses events: %w", err)
	}
	s.log.Warn("Event queue is full; a resync will replace lost changes")
	interval := s.Config.RemoteDBProbingInterval.Std()
	due := min(burstOver, interval)
	if time.Since(s.fellBehind) < interval {
		due = interval
	}
	s.behind, s.fellBehind = true, time.Now()
	s.resyncDue.Reset(due)
	return nil
}

func (s *session) probe() error {
	_, revision, err := s.Remote.List(s.ctx, s.known.prefixes()[0]+probeKey)
	if err != nil {
		// The end of the watch reports a lost connection; this may be a slow answer.
		s.log.Warn("Database probe failed", "error", err)
		return nil
	}
	if revision < s.lastRevision {
		return errRevisionWentBack
	}
	s.lastRevision = revision
	if s.mirror.stale && s.recovery == nil { // the mirror keeps data that the database lost
		return s.completeMirror()
	}
	return nil
}

// completeMirror mirrors a new snapshot. The watch will deliver the changes in it that are not
// known yet.
func (s *session) completeMirror() error {
	all, _, err := s.list()
	if err != nil {
		return err
	}
	s.mirror.replace(s.ctx, s.known.prefixes(), newKnown(s.Node, s.log).replace(all), s.origin)
	return nil
}
