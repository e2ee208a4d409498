package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchBuffer is the number of batches that may wait for the user of a watch, who can then take
// them at once.
const watchBuffer = 128

// Watch implements store.Watchable. It returns when etcd has confirmed all watches. Changes are in
// order within a prefix, but not across prefixes. If the connection is lost, the watch ends with
// store.ErrUnavailable.
func (s *Store) Watch(ctx context.Context, revision int64, prefixes ...string) (<-chan store.WatchBatch, error) {
	w := &watch{user: ctx, out: make(chan store.WatchBatch, watchBuffer)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	lost := s.connectionLost()

	var channels []clientv3.WatchChan
	for _, prefix := range prefixes {
		ch, err := s.startWatch(w, prefix, revision)
		if err != nil {
			w.cancel(nil)
			return nil, err
		}
		channels = append(channels, ch)
	}
	for i, ch := range channels {
		w.wg.Go(func() { w.forward(prefixes[i], ch) })
	}
	go w.supervise(lost, s.ctx.Done())
	return w.out, nil
}

// startWatch starts the watch of one prefix and waits for its confirmation.
func (s *Store) startWatch(w *watch, prefix string, revision int64) (clientv3.WatchChan, error) {
	late := errors.New("no answer in time")
	timer := time.AfterFunc(s.timeout, func() { w.cancel(late) })
	defer timer.Stop()
	probing, stop := context.WithTimeout(w.ctx, s.timeout)
	defer stop()
	reason := make(chan error, 1)
	defer time.AfterFunc(s.timeout/2, func() { reason <- s.probe(probing) }).Stop()

	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCreatedNotify()}
	if revision > 0 {
		opts = append(opts, clientv3.WithRev(revision+1))
	}
	ch := s.client.Watch(clientv3.WithRequireLeader(w.ctx), prefix, opts...)
	first, ok := <-ch
	switch {
	case errors.Is(context.Cause(w.ctx), late):
		select {
		case err := <-reason:
			if err != nil {
				return nil, fmt.Errorf("etcd: %w: %w", store.ErrUnavailable, err)
			}
		default:
		}
		return nil, fmt.Errorf("etcd: %w: %w", store.ErrUnavailable, late)
	case w.ctx.Err() != nil:
		return nil, fmt.Errorf("etcd: watch %s: %w", prefix, context.Cause(w.ctx))
	case !ok:
		return nil, fmt.Errorf("etcd: %w: the watch of %s ended", store.ErrUnavailable, prefix)
	case first.Err() != nil:
		return nil, wrap("watch "+prefix, first.Err())
	}
	return ch, nil
}

// watch merges the watches of several prefixes. It has one forward goroutine per prefix, and
// supervise, which closes out when they have ended.
type watch struct {
	// user is the context of the caller, ctx the one of the goroutines.
	user, ctx context.Context
	cancel    context.CancelCauseFunc
	wg        sync.WaitGroup
	out       chan store.WatchBatch

	failOnce sync.Once
	failure  error
}

func (w *watch) forward(prefix string, in clientv3.WatchChan) {
	for response := range in {
		if err := response.Err(); err != nil {
			if w.ctx.Err() == nil {
				w.fail(wrap("watch "+prefix, err))
			}
			return
		}
		if len(response.Events) == 0 {
			continue
		}
		batch := store.WatchBatch{Revision: response.Header.Revision}
		for _, event := range response.Events {
			batch.Changes = append(batch.Changes, store.Change{
				KV:      store.KV{Key: string(event.Kv.Key), Value: event.Kv.Value, Revision: event.Kv.ModRevision},
				Deleted: event.Type == clientv3.EventTypeDelete,
			})
		}
		select {
		case w.out <- batch:
		case <-w.ctx.Done():
			return
		}
	}
	w.fail(fmt.Errorf("etcd: %w: the watch of %s ended", store.ErrUnavailable, prefix))
}

// fail ends the watch with the first error.
func (w *watch) fail(err error) {
	w.failOnce.Do(func() {
		w.failure = err
		w.cancel(err)
	})
}

func (w *watch) supervise(lost, closed <-chan struct{}) {
	select {
	case <-lost:
		w.fail(fmt.Errorf("etcd: %w: the connection was lost", store.ErrUnavailable))
	case <-closed:
		w.fail(fmt.Errorf("etcd: %w: closed", store.ErrUnavailable))
	case <-w.ctx.Done():
	}
	w.wg.Wait()
	if w.failure != nil && w.user.Err() == nil {
		select {
		case w.out <- store.WatchBatch{Err: w.failure}:
		case <-w.user.Done():
		}
	}
	close(w.out)
}
