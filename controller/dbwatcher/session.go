package dbwatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/store"
)

// maxGathered is how many changes are enough for one write of the mirror; a batch
// that has more is not split.
const maxGathered = 500

// formatKey is the full key of dbresources.FormatKey.
const formatKey = models.KSRPrefix + dbresources.FormatKey

// session is the time from one watch to its end.
type session struct {
	*Watcher
	ctx context.Context
	// opening has the first snapshot.
	opening opening
	// snapshots are the revisions of the last snapshots, by prefix: each contains the changes up to
	// its revision.
	snapshots map[string]int64
	// resyncDue fires when a resync must be made (again).
	resyncDue *time.Timer
	// requested are upstream and downstream resyncs to be made.
	requested []request
	// behind says that the event loop missed changes: it gets nothing but a
	// resync.
	behind bool
	// fellBehind is when it last began to be behind.
	fellBehind time.Time
}

// session watches the database until an error, and reports whether the watch could be
// established at all. The first session takes the known state from the mirror meanwhile.
func (w *Watcher) session(ctx context.Context, first bool) (established bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := w.open(ctx)
	if first {
		w.recall(ctx)
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

// opening is a watch, and the first snapshot after it, that are under way: reading a large database takes about as long as
// decoding its mirror.
type opening struct {
	watch    chan watched // one
	snapshot chan listing // one, if the watch is established; nil: not read ahead
}

type watched struct {
	changes <-chan store.WatchBatch
	err     error
}

// listing is the content of the database; revisions are those of the snapshots of each prefix.
type listing struct {
	all       []store.KV
	revisions map[string]int64
	err       error
}

// open begins to watch and to read the database. One that is being recovered is not read: KSR has to fill it first.
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

// watch waits until the watch is established. The local resync does not.
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
	// The snapshot comes before all changes: one that was read ahead lacks some of those that wait.
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
			// However long that took: what came meanwhile, the end of the watch perhaps,
			// is before the next one.
			probe.Reset(s.Config.RemoteDBProbingInterval.Std())
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// resync takes a snapshot and sends it as DBResync.
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
		s.localResync(s.ctx) // the node does not wait for its first resync
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
	s.requested = nil // among them
	s.behind, s.resynced = false, true
	s.setConnected(nil)
	return nil
}

// list reads the database, or takes what was read since the watch was established. It fails with dbresources.ErrNewer if this
// version cannot read it.
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
			return l.all, l.revisions, dbresources.CheckFormat(kv.Value)
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

// gather adds the batches that wait already to the first one: they share a write of
// the mirror, which takes longer than anything else, and an event.
func gather(batch store.WatchBatch, waiting <-chan store.WatchBatch) store.WatchBatch {
	for len(batch.Changes) < maxGathered && batch.Err == nil {
		select {
		case next, ok := <-waiting:
			if !ok {
				return batch // the session notices it with its next attempt to receive
			}
			batch.Changes = append(batch.Changes, next.Changes...)
			batch.Revision, batch.Err = next.Revision, next.Err
		default:
			return batch
		}
	}
	return batch
}

// receive sends the changes of a batch as events. The error of the batch, if it has one,
// comes after its changes.
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
			if err := dbresources.CheckFormat(change.Value); err != nil {
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
	// The event loop does not wait for the disk, which may be slow.
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

// burstOver is how long after a full queue the rest of a burst has come.
const burstOver = 100 * time.Millisecond

// refused handles events that the loop did not take: when its queue is full, a
// resync later makes up for them, and for those that wait. Until then changes are only
// mirrored. The resync follows a burst closely; while bursts go on it is made once in
// a probing interval, because it reads the whole database.
func (s *session) refused(err error) error {
	if !errors.Is(err, controller.ErrQueueFull) {
		return fmt.Errorf("event loop refuses events: %w", err)
	}
	s.log.Warn("The event queue is full: a resync will make up for lost changes")
	interval := s.Config.RemoteDBProbingInterval.Std()
	due := min(burstOver, interval)
	if time.Since(s.fellBehind) < interval {
		due = interval
	}
	s.behind, s.fellBehind = true, time.Now()
	s.resyncDue.Reset(due)
	return nil
}

// probe asks the database for its revision.
func (s *session) probe() error {
	_, revision, err := s.Remote.List(s.ctx, s.known.prefixes()[0]+probeKey)
	if err != nil {
		// The watch tells when the connection is lost; this may be a slow answer.
		s.log.Warn("The database does not answer a probe", "error", err)
		return nil
	}
	if revision < s.lastRevision {
		return errRevisionWentBack
	}
	s.lastRevision = revision
	if s.mirror.stale && s.recovery == nil { // the mirror keeps what the database has lost
		return s.completeMirror()
	}
	return nil
}

// completeMirror mirrors a new snapshot. What it contains beyond the known values, the
// watch will tell.
func (s *session) completeMirror() error {
	all, _, err := s.list()
	if err != nil {
		return err
	}
	s.mirror.replace(s.ctx, s.known.prefixes(), newKnown(s.Node, s.log).replace(all), s.origin)
	return nil
}
