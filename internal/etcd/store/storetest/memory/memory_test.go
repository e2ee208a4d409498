package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.TestBroker(t, func(*testing.T) store.Broker { return memory.New() })
	storetest.TestWatchable(t, func(*testing.T) store.Watchable { return memory.New() })
}

func TestWatchOfCompactedRevision(t *testing.T) {
	s, ctx := memory.New(), context.Background()
	_, revision, _ := s.List(ctx, "/")
	s.Put(ctx, "/a", nil)
	s.Put(ctx, "/b", nil)
	s.Compact(revision + 1)
	ch, err := s.Watch(ctx, revision, "/")
	if err != nil {
		t.Fatal(err)
	}
	if b := <-ch; !errors.Is(b.Err, store.ErrCompacted) {
		t.Errorf("got %v", b)
	}
	ch, err = s.Watch(ctx, revision+1, "/")
	if err != nil {
		t.Fatal(err)
	}
	if b := <-ch; len(b.Changes) != 1 || b.Changes[0].Key != "/b" {
		t.Errorf("got %v", b)
	}
	s.Close()
	<-ch
}

func TestOutage(t *testing.T) {
	s, ctx := memory.New(), context.Background()
	ch, err := s.Watch(ctx, 0, "/")
	if err != nil {
		t.Fatal(err)
	}
	s.SetAvailable(false)
	if b := <-ch; !errors.Is(b.Err, store.ErrUnavailable) {
		t.Errorf("watch: %v", b)
	}
	if err := s.Put(ctx, "/a", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	s.SetAvailable(true)
	if err := s.Put(ctx, "/a", nil); err != nil {
		t.Error(err)
	}
}
