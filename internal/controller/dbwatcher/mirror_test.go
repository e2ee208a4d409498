package dbwatcher_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

// patient is a mirror whose reads wait for permission.
type patient struct {
	*memory.Store
	read <-chan struct{}
}

func (p patient) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	select {
	case <-p.read:
	case <-ctx.Done():
	}
	return p.Store.List(ctx, prefix)
}

// observed is a database that signals reads.
type observed struct {
	*memory.Store
	once *sync.Once
	read chan struct{}
}

func (d observed) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	d.once.Do(func() { close(d.read) })
	return d.Store.List(ctx, prefix)
}

// At a start, the database and the mirror are read concurrently, since both take long.
func TestDatabaseIsReadBesideTheMirror(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue("10.1.1.2"))
		read := make(chan struct{})
		r.watcher = dbwatcher.Start(dbwatcher.Options{
			Node: "node1", Remote: observed{r.remote, &sync.Once{}, read}, Local: patient{r.local, read}, Loop: r.loop, Config: r.config, Log: slog.New(slog.DiscardHandler),
		})
		synctest.Wait()
		select {
		case <-read:
		default:
			t.Fatal("the database waits for the mirror")
		}
		if n := len(r.last().State["pod"]); n != 1 {
			t.Errorf("the resync has %d pods, want 1", n)
		}
	})
}

// Changes between the reads of the database and of the mirror are not lost.
func TestChangesWhileTheMirrorIsRead(t *testing.T) {
	for range 20 { // the order varies
		inBubble(t, func(t *testing.T, r *rig) {
			read := make(chan struct{})
			r.watcher = dbwatcher.Start(dbwatcher.Options{
				Node: "node1", Remote: r.remote, Local: patient{r.local, read}, Loop: r.loop, Config: r.config, Log: slog.New(slog.DiscardHandler),
			})
			synctest.Wait()
			r.put(r.remote, podKey, podValue(""))
			close(read)
			synctest.Wait()
			r.want("resync", "add pod=k8s/pod/web/namespace/default")
		})
	}
}

// slowDisk is a mirror whose writes wait for permission.
type slowDisk struct {
	*memory.Store
	may chan struct{}
}

func (d slowDisk) Batch(ctx context.Context, changes []store.Change) error {
	<-d.may
	return d.Store.Batch(ctx, changes)
}

// Events are sent while the mirror is being written.
func TestChangesDoNotWaitForTheMirror(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		may := make(chan struct{}, 1)
		may <- struct{}{} // the first snapshot
		r.watcher = dbwatcher.Start(dbwatcher.Options{
			Node: "node1", Remote: r.remote, Local: slowDisk{r.local, may}, Loop: r.loop, Config: r.config, Log: slog.New(slog.DiscardHandler),
		})
		synctest.Wait()
		r.want("resync")
		r.put(r.remote, podKey, podValue(""))
		r.want("add pod=k8s/pod/web/namespace/default")
		r.wantMirror()
		close(may)
		synctest.Wait()
		r.wantMirror(podKey)
	})
}
