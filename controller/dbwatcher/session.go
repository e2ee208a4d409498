package dbwatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/store"
)

// errRevisionWentBack ends a session with a database that lost its data.
var errRevisionWentBack = errors.New("revision of the database went backwards: it was wiped or restored")

// session is the time from one watch to its end.
type session struct {
	*Watcher
	ctx context.Context
	// snapshots are the revisions of the last snapshot, by prefix: changes up to
	// there are contained in it.
	snapshots map[string]int64
	// resyncDue fires when a resync must be made (again).
	resyncDue *time.Timer
	// behind says that the event loop missed changes: it gets nothing but a
	// resync.
	behind bool
}

// session watches the database until an error, and tells if the watch could be
// established at all.
func (w *Watcher) session(ctx context.Context) (established bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := w.watch(ctx)
	if err != nil {
		return false, err
	}
	s := &session{Watcher: w, ctx: ctx, snapshots: make(map[string]int64), resyncDue: time.NewTimer(0)}
	defer s.resyncDue.Stop()
	return true, s.run(changes)
}

// watch establishes the watch. The local resync does not wait for it.
func (w *Watcher) watch(ctx context.Context) (<-chan store.WatchBatch, error) {
	type result struct {
		changes <-chan store.WatchBatch
		err     error
	}
	results := make(chan result, 1)
	go func() {
		changes, err := w.Remote.Watch(ctx, 0, w.known.prefixes()...)
		results <- result{changes, err}
	}()
	select {
	case r := <-results:
		return r.changes, r.err
	case <-w.localDue.C:
		w.localResync(ctx)
	}
	r := <-results
	return r.changes, r.err
}

func (s *session) run(changes <-chan store.WatchBatch) error {
	probe := time.NewTicker(s.Config.RemoteDBProbingInterval.Std())
	defer probe.Stop()
	for {
		var err error
		select {
		case batch, ok := <-changes:
			if !ok {
				return s.ctx.Err()
			}
			err = s.receive(batch)
		case <-s.requests:
			err = s.resync()
		case <-s.resyncDue.C:
			err = s.resync()
		case <-probe.C:
			err = s.probe()
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
	snapshot, err := s.snapshot()
	if err != nil {
		return err
	}
	if err := s.Loop.PushEvent(s.ctx, snapshot.resync); err != nil {
		return s.refused(err)
	}
	s.behind, s.resynced = false, true
	s.setConnected(nil)
	return nil
}

// snapshot reads the database and mirrors it.
func (s *session) snapshot() (snapshot, error) {
	var all []store.KV
	for _, prefix := range s.known.prefixes() {
		kvs, revision, err := s.Remote.List(s.ctx, prefix)
		if err == nil {
			err = s.sawRevision(revision)
		}
		if err != nil {
			return snapshot{}, err
		}
		s.snapshots[prefix] = revision
		all = append(all, kvs...)
	}
	snapshot := s.known.replace(all)
	s.mirror.replace(s.ctx, s.known.prefixes(), snapshot)
	return snapshot, nil
}

// receive sends the changes of a batch as events.
func (s *session) receive(batch store.WatchBatch) error {
	if batch.Err != nil {
		return batch.Err
	}
	var fresh []store.Change
	for _, change := range batch.Changes {
		if revision, ok := s.snapshots[s.known.prefixOf(change.Key)]; ok && change.Revision > revision {
			fresh = append(fresh, change)
		}
	}
	events, mirrored := s.known.update(fresh)
	s.mirror.apply(s.ctx, mirrored)
	if s.behind {
		return nil
	}
	for _, event := range events {
		if err := s.Loop.PushEvent(s.ctx, event); err != nil {
			return s.refused(err)
		}
	}
	return nil
}

// refused handles events that the loop did not take: when its queue is full, a
// resync later makes up for them. Until then changes are only mirrored.
func (s *session) refused(err error) error {
	if !errors.Is(err, controller.ErrQueueFull) {
		return fmt.Errorf("event loop refuses events: %w", err)
	}
	s.log.Warn("The event queue is full: a resync will make up for lost changes")
	s.behind = true
	s.resyncDue.Reset(s.Config.RemoteDBProbingInterval.Std())
	return nil
}

// probe asks the database for its revision.
func (s *session) probe() error {
	_, revision, err := s.Remote.List(s.ctx, probeKey)
	if err != nil {
		// The watch tells when the connection is lost; this may be a slow answer.
		s.log.Warn("The database does not answer a probe", "error", err)
		return nil
	}
	if err := s.sawRevision(revision); err != nil {
		return err
	}
	if s.mirror.stale {
		return s.completeMirror()
	}
	return nil
}

// completeMirror mirrors a new snapshot. What it contains beyond the known values, the
// watch will tell.
func (s *session) completeMirror() error {
	var all []store.KV
	for _, prefix := range s.known.prefixes() {
		kvs, _, err := s.Remote.List(s.ctx, prefix)
		if err != nil {
			return err
		}
		all = append(all, kvs...)
	}
	s.mirror.replace(s.ctx, s.known.prefixes(), newKnown(s.Node, s.log).replace(all))
	return nil
}

// sawRevision compares the revision of a read with the one before.
func (s *session) sawRevision(revision int64) error {
	if revision < s.lastRevision {
		err := fmt.Errorf("%w (from %d to %d)", errRevisionWentBack, s.lastRevision, revision)
		s.lastRevision = 0
		return err
	}
	s.lastRevision = revision
	return nil
}
