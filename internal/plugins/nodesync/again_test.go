package nodesync_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

// full is a store without room or without answers.
type full struct {
	store.Broker
	full, silent atomic.Bool
}

var errFull = errors.New("database space exceeded")

func (f *full) Get(ctx context.Context, key string) (store.KV, bool, error) {
	if f.silent.Load() {
		return store.KV{}, false, errors.New("no answer in time")
	}
	return f.Broker.Get(ctx, key)
}

func (f *full) CompareAndSwap(ctx context.Context, key string, old, value []byte) (bool, error) {
	if f.full.Load() {
		return false, errFull
	}
	return f.Broker.CompareAndSwap(ctx, key, old, value)
}

// A failed publication is retried without any other event: watches of a full etcd continue, and the
// release of a name changes no watched key.
func TestPublishingIsTriedAgain(t *testing.T) {
	for _, test := range []struct {
		name     string
		obstacle func(db *full, taken *error, on bool)
	}{
		{"etcd has no room", func(db *full, _ *error, on bool) { db.full.Store(on) }},
		{"the name is another agent's", func(_ *full, taken *error, on bool) {
			if *taken = nil; on {
				*taken = nodesync.ErrNameTaken
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, loop, taken := &full{Broker: memory.New()}, &plugintest.Loop{}, error(nil)
				n := nodesync.New("node1", db, nodesync.Self{Claim: func() error { return taken }}, loop, plugintest.Logger())
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				go n.Run(ctx)
				resync(t, n, state(kubeNode("node1")))
				attempts := func(within time.Duration) (attempts int) {
					t.Helper()
					for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Second) {
						synctest.Wait()
						for _, event := range loop.Take() {
							attempts++
							if !n.HandlesEvent(event) {
								t.Errorf("%v is not handled", event)
							}
							if _, err := n.Update(ctx, event, nil); err != nil {
								t.Error(err)
							}
						}
					}
					return attempts
				}
				test.obstacle(db, &taken, true)
				if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
					t.Fatal(err)
				}
				if got := attempts(10 * time.Minute); got < 12 || got > 20 {
					t.Errorf("%d attempts in ten minutes, want a few at the beginning and one each minute then", got)
				}
				if v := stored(t, db.Broker, 1); len(v.GetIpAddresses()) > 0 {
					t.Fatalf("stored %v in spite of everything", v)
				}
				db.silent.Store(true)
				if got := attempts(10 * time.Minute); got > 0 {
					t.Errorf("%d attempts while etcd does not answer: the event loop waited for it", got)
				}
				db.silent.Store(false)
				test.obstacle(db, &taken, false)
				attempts(2 * time.Minute)
				if v := stored(t, db.Broker, 1); len(v.GetIpAddresses()) != 1 {
					t.Errorf("stored %v, want the address", v)
				}
				if got := attempts(10 * time.Minute); got > 0 {
					t.Errorf("%d attempts after it was published", got)
				}
				cancel()
			})
		})
	}
}

func TestNothingIsPublishedAgainByANodeThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, loop := &full{Broker: memory.New()}, &plugintest.Loop{}
		n := nodesync.New("node1", db, nodesync.Self{}, loop, plugintest.Logger())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go n.Run(ctx)
		resync(t, n, state(kubeNode("node1"), vppNode(1, "node1")))
		db.full.Store(true)
		if err := db.Put(ctx, nodesync.IDPrefix+"1", []byte(`{"id":1,"name":"node1"}`)); err != nil {
			t.Fatal(err)
		}
		if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
			t.Fatal(err)
		}
		db.full.Store(false)
		for _, gone := range []*controller.KubeStateChange{
			{Resource: "node", PrevValue: kubeNode("node1")}, {Resource: "vppnode", Key: "allocatedIDs/1", PrevValue: vppNode(1, "node1")},
		} {
			if _, err := n.Update(ctx, gone, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Delete(ctx, nodesync.IDPrefix+"1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		events := loop.Take()
		if len(events) == 0 {
			t.Error("it is not tried again")
		}
		for _, event := range events {
			if _, again := event.(*nodesync.PublishAgain); again {
				n.Update(ctx, event, nil)
			}
		}
		if v := stored(t, db.Broker, 1); v != nil {
			t.Errorf("stored %v", v)
		}
		cancel()
	})
}
