package ksr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/models"
)

type counting struct {
	*memory.Store
	mu      sync.Mutex
	batches [][]store.Change
}

func (c *counting) Batch(ctx context.Context, changes []store.Change) error {
	c.mu.Lock()
	c.batches = append(c.batches, append([]store.Change(nil), changes...))
	c.mu.Unlock()
	return c.Store.Batch(ctx, changes)
}

func (c *counting) taken() [][]store.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.batches
}

func TestManyChangesAreFewTransactions(t *testing.T) {
	s := &counting{Store: memory.New()}
	r := reflect(t, s)
	var objects []Object
	for i := range 1000 {
		objects = append(objects, newPod(fmt.Sprintf("p%03d", i)))
	}
	r.source.report(objects...)
	<-r.Synced()
	batches := s.taken()
	if want := 8; len(batches) != want {
		t.Errorf("%d transactions, want %d", len(batches), want)
	}
	for _, b := range batches {
		if len(b) > maxBatch {
			t.Errorf("a transaction of %d changes", len(b))
		}
	}
	if got := r.Stats()[Pod].Adds; got != 1000 {
		t.Errorf("%d pods were added", got)
	}
}

func TestLargeValuesDoNotMakeTransactionsTooLarge(t *testing.T) {
	s := &counting{Store: memory.New()}
	r := reflect(t, s)
	var objects []Object
	for i := range 8 {
		p := newPod(fmt.Sprint(i))
		p.Labels["x"] = strings.Repeat("y", 100<<10)
		objects = append(objects, p)
	}
	r.source.report(objects...)
	<-r.Synced()
	for _, b := range s.taken() {
		size := 0
		for _, c := range b {
			size += len(c.Value)
		}
		if size > maxBatchBytes {
			t.Errorf("a transaction of %d bytes", size)
		}
	}
}

func TestObjectThatCannotBeReflectedHarmsNoOther(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	broken := newPod("a")
	broken.Labels["x"] = "\xff"
	r.source.report(broken, newPod("b"))
	await(t, s, keyB)
	<-r.Synced()
	if got := r.Stats()[Pod]; got.ArgErrors != 1 || got.Adds != 1 {
		t.Errorf("statistics: %+v", got)
	}
}

func TestSliceThatLeavesItsServiceIsDeleted(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	const key = "contiv-ksr/k8s/endpointslice/web-1/namespace/prod"
	r.source.report(newSlice("web-1", "web"), newSlice("web-2", "web"), newPod("a"))
	await(t, s, key, "contiv-ksr/k8s/endpointslice/web-2/namespace/prod", keyA)
	r.source.report(newSlice("web-1", ""))
	await(t, s, "contiv-ksr/k8s/endpointslice/web-2/namespace/prod", keyA)
}

type late struct {
	*memory.Store
	// asked receives a value when a batch should time out, which then waits for giveUp.
	asked, giveUp chan bool
	mu            sync.Mutex
	pending       []store.Change
}

func (l *late) Batch(ctx context.Context, changes []store.Change) error {
	select {
	case <-l.asked:
	default:
		return l.Store.Batch(ctx, changes)
	}
	<-l.giveUp
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.Clone(changes)
	return context.DeadlineExceeded
}

func (l *late) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	kvs, revision, err := l.Store.List(ctx, prefix)
	l.mu.Lock()
	defer l.mu.Unlock()
	if prefix == Pod.KeyPrefix() && l.pending != nil {
		err = errors.Join(err, l.Store.Batch(ctx, l.pending))
		l.pending = nil
	}
	return kvs, revision, err
}

// A write that is executed after its retry has read the store is reverted, even if the object has
// changed back meanwhile.
func TestLateWritesDoNotStay(t *testing.T) {
	s := &late{Store: memory.New(), asked: make(chan bool, 1), giveUp: make(chan bool)}
	r := reflect(t, s)
	r.source.report(newPod("a"), newPod("b"))
	await(t, s.Store, keyA, keyB)
	<-r.Synced()
	s.asked <- true
	r.source <- Changes{Deleted: []Ref{{Pod, "default", "a"}}, Complete: true}
	s.asked <- true
	<-s.asked
	r.source.report(newPod("a"))
	r.source <- Changes{Complete: true}
	changes, err := s.Watch(t.Context(), 0, models.AgentPrefix+keyA)
	if err != nil {
		t.Fatal(err)
	}
	s.giveUp <- true
	if batch := <-changes; !batch.Changes[0].Deleted {
		t.Fatalf("the late write was not the first: %v", batch.Changes)
	}
	await(t, s.Store, keyA, keyB)
}
