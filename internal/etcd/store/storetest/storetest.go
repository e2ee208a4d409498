// Package storetest tests the contract of all stores.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestBroker tests a Broker; new returns an empty one.
func TestBroker(t *testing.T, new func(t *testing.T) store.Broker) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Get returns the last value put", getReturnsLastPut},
		{"Get of a missing key is no error", getMissing},
		{"List returns the pairs with a prefix, sorted", list},
		{"List of everything", listAll},
		{"values may be empty and binary", binary},
		{"Delete of a missing key succeeds", deleteMissing},
		{"DeletePrefix deletes only its prefix", deletePrefix},
		{"PutIfNotExists puts once", putIfNotExists},
		{"PutIfNotExists has one winner", putIfNotExistsRace},
		{"CompareAndSwap swaps only the expected value", compareAndSwap},
		{"CompareAndDelete deletes only the expected value", compareAndDelete},
		{"a batch applies in order", batch},
		{"returned values belong to the caller", returnedValues},
		{"an ended context is respected", endedContext},
		{"a closed store is unavailable", closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, newSuite(t, new(t)))
		})
	}
}

// TestWatchable tests the watches of a Watchable.
func TestWatchable(t *testing.T, new func(t *testing.T) store.Watchable) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite, store.Watchable)
	}{
		{"a watch reports changes in order", watchReportsInOrder},
		{"a watch reports only its prefixes", watchPrefixes},
		{"a watch begins after its revision", watchFromRevision},
		{"a watch established before a list misses nothing", watchThenList},
		{"revisions grow", revisionsGrow},
		{"the end of the context closes the channel", watchEnds},
		{"Close ends a watch with an error", closeEndsWatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := new(t)
			test.run(t, newSuite(t, w), w)
		})
	}
}

type suite struct {
	store.Broker
	t   *testing.T
	ctx context.Context
}

func newSuite(t *testing.T, b store.Broker) *suite {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(func() {
		cancel()
		b.Close()
	})
	return &suite{b, t, ctx}
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) put(key, value string) {
	s.t.Helper()
	s.must(s.Put(s.ctx, key, []byte(value)))
}

// want compares the pairs with the prefix, as "key=value".
func (s *suite) want(prefix string, pairs ...string) {
	s.t.Helper()
	kvs, _, err := s.List(s.ctx, prefix)
	s.must(err)
	var got []string
	for _, kv := range kvs {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	if diff := cmp.Diff(pairs, got, cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("pairs with prefix %q (-want +got):\n%s", prefix, diff)
	}
}

func getReturnsLastPut(t *testing.T, s *suite) {
	s.put("/a", "1")
	s.put("/a", "2")
	kv, ok, err := s.Get(s.ctx, "/a")
	s.must(err)
	if !ok || kv.Key != "/a" || string(kv.Value) != "2" {
		t.Errorf("got %v %v", kv, ok)
	}
}

func getMissing(t *testing.T, s *suite) {
	if _, ok, err := s.Get(s.ctx, "/missing"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

func list(_ *testing.T, s *suite) {
	for _, key := range []string{"/b/2", "/a/1", "/b/10", "/b", "/c", "/b0"} {
		s.put(key, "v")
	}
	s.want("/b/", "/b/10=v", "/b/2=v")
	s.want("/nothing/")
}

func listAll(_ *testing.T, s *suite) {
	s.put("/b", "2")
	s.put("a", "1")
	s.want("", "/b=2", "a=1")
}

func binary(t *testing.T, s *suite) {
	for _, value := range []string{"", "\x00\xff\xfe", "ü"} {
		s.put("/a", value)
		kv, ok, err := s.Get(s.ctx, "/a")
		s.must(err)
		if !ok || string(kv.Value) != value {
			t.Errorf("put %q, got %q %v", value, kv.Value, ok)
		}
	}
}

func deleteMissing(_ *testing.T, s *suite) {
	s.put("/a", "1")
	s.must(s.Delete(s.ctx, "/a"))
	s.must(s.Delete(s.ctx, "/a"))
	s.want("/")
}

func deletePrefix(_ *testing.T, s *suite) {
	for _, key := range []string{"/a/1", "/a/2", "/a", "/ab", "/b/1"} {
		s.put(key, "v")
	}
	s.must(s.DeletePrefix(s.ctx, "/a/"))
	s.must(s.DeletePrefix(s.ctx, "/nothing/"))
	s.want("/", "/a=v", "/ab=v", "/b/1=v")
}

func putIfNotExists(t *testing.T, s *suite) {
	for i, want := range []bool{true, false} {
		put, err := s.PutIfNotExists(s.ctx, "/a", fmt.Append(nil, i))
		s.must(err)
		if put != want {
			t.Errorf("attempt %d: got %v", i, put)
		}
	}
	s.want("/", "/a=0")
}

func putIfNotExistsRace(t *testing.T, s *suite) {
	var (
		wg      sync.WaitGroup
		winners atomic.Int32
	)
	for i := range 10 {
		wg.Go(func() {
			put, err := s.PutIfNotExists(s.ctx, "/a", fmt.Append(nil, i))
			if err != nil {
				t.Error(err)
			}
			if put {
				winners.Add(1)
			}
		})
	}
	wg.Wait()
	if winners.Load() != 1 {
		t.Errorf("%d winners", winners.Load())
	}
}

func compareAndSwap(t *testing.T, s *suite) {
	s.put("/a", "1")
	for _, test := range []struct {
		key, old string
		want     bool
	}{{"/a", "2", false}, {"/a", "1", true}, {"/a", "1", false}, {"/missing", "", false}} {
		swapped, err := s.CompareAndSwap(s.ctx, test.key, []byte(test.old), []byte("new"))
		s.must(err)
		if swapped != test.want {
			t.Errorf("%s %q: got %v", test.key, test.old, swapped)
		}
	}
	s.want("/", "/a=new")
}

func compareAndDelete(t *testing.T, s *suite) {
	s.put("/a", "1")
	for _, test := range []struct {
		old  string
		want bool
	}{{"2", false}, {"1", true}, {"1", false}} {
		deleted, err := s.CompareAndDelete(s.ctx, "/a", []byte(test.old))
		s.must(err)
		if deleted != test.want {
			t.Errorf("%q: got %v", test.old, deleted)
		}
	}
	s.want("/")
}

func batch(_ *testing.T, s *suite) {
	s.put("/old", "0")
	s.must(store.Apply(s.ctx, s.Broker, []store.Change{
		{KV: store.KV{Key: "/a", Value: []byte("1")}},
		{KV: store.KV{Key: "/b", Value: []byte("1")}},
		{KV: store.KV{Key: "/old"}, Deleted: true},
		{KV: store.KV{Key: "/missing"}, Deleted: true},
		{KV: store.KV{Key: "/a", Value: []byte("2")}},
		{KV: store.KV{Key: "/b"}, Deleted: true},
	}))
	s.want("/", "/a=2")
	s.must(store.Apply(s.ctx, s.Broker, nil))
}

func returnedValues(_ *testing.T, s *suite) {
	value := []byte("1")
	s.must(s.Put(s.ctx, "/a", value))
	value[0] = 'x'
	kv, _, err := s.Get(s.ctx, "/a")
	s.must(err)
	kv.Value[0] = 'y'
	kvs, _, err := s.List(s.ctx, "/")
	s.must(err)
	kvs[0].Value[0] = 'z'
	s.want("/", "/a=1")
}

func endedContext(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, _, err := s.Get(ctx, "/a")
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := s.Put(ctx, "/a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	s.want("/")
}

func closed(t *testing.T, s *suite) {
	s.must(s.Close())
	if err := s.Put(s.ctx, "/a", nil); err == nil {
		t.Error("Put succeeded")
	}
	if _, _, err := s.List(s.ctx, "/"); err == nil {
		t.Error("List succeeded")
	}
}

// watch starts a watch that ends with the test.
func (s *suite) watch(w store.Watchable, revision int64, prefixes ...string) <-chan store.WatchBatch {
	s.t.Helper()
	ch, err := w.Watch(s.ctx, revision, prefixes...)
	s.must(err)
	return ch
}

// next returns n changes as "key=value", or "key" for a deletion.
func (s *suite) next(ch <-chan store.WatchBatch, n int) (got []string) {
	s.t.Helper()
	for len(got) < n {
		select {
		case b, ok := <-ch:
			if !ok || b.Err != nil {
				s.t.Fatalf("watch ended (%v) after %v", b.Err, got)
			}
			for _, c := range b.Changes {
				if c.Revision == 0 || c.Revision > b.Revision {
					s.t.Errorf("%s: revision %d in a batch of revision %d", c.Key, c.Revision, b.Revision)
				}
				if c.Deleted {
					got = append(got, c.Key)
				} else {
					got = append(got, c.Key+"="+string(c.Value))
				}
			}
		case <-s.ctx.Done():
			s.t.Fatalf("nothing more after %v", got)
		}
	}
	return got
}

func (s *suite) wantNext(ch <-chan store.WatchBatch, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.next(ch, len(want))); diff != "" {
		s.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func watchReportsInOrder(_ *testing.T, s *suite, w store.Watchable) {
	s.put("/a", "before")
	ch := s.watch(w, 0, "/a")
	s.put("/a", "1")
	s.put("/a", "2")
	s.must(s.Delete(s.ctx, "/a"))
	s.must(s.Delete(s.ctx, "/a"))
	s.put("/a", "3")
	s.wantNext(ch, "/a=1", "/a=2", "/a", "/a=3")
}

func watchPrefixes(_ *testing.T, s *suite, w store.Watchable) {
	ch := s.watch(w, 0, "/a/", "/b/")
	for i, key := range []string{"/a", "/a/1", "/c/1", "/b/1", "/ab"} {
		s.put(key, fmt.Sprint(i))
	}
	got := s.next(ch, 2)
	if got[0] > got[1] { // prefixes are not ordered
		got[0], got[1] = got[1], got[0]
	}
	if diff := cmp.Diff([]string{"/a/1=1", "/b/1=3"}, got); diff != "" {
		s.t.Error(diff)
	}
}

func watchFromRevision(_ *testing.T, s *suite, w store.Watchable) {
	s.put("/a", "1")
	_, revision, err := s.List(s.ctx, "/")
	s.must(err)
	s.put("/a", "2")
	s.put("/a", "3")
	s.wantNext(s.watch(w, revision, "/"), "/a=2", "/a=3")
}

func watchThenList(t *testing.T, s *suite, w store.Watchable) {
	const n = 200
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			if err := s.Put(s.ctx, fmt.Sprintf("/a/%d", i), nil); err != nil {
				t.Error(err)
			}
		}
	}()
	ch := s.watch(w, 0, "/a/")
	kvs, revision, err := s.List(s.ctx, "/a/")
	s.must(err)
	seen := make(map[string]bool)
	for _, kv := range kvs {
		seen[kv.Key] = true
		if kv.Revision > revision {
			t.Errorf("%s has revision %d in a snapshot of %d", kv.Key, kv.Revision, revision)
		}
	}
	for len(seen) < n { // a gap would end in the deadline of next
		for _, change := range s.next(ch, 1) {
			seen[strings.TrimSuffix(change, "=")] = true
		}
	}
	<-done
}

func revisionsGrow(t *testing.T, s *suite, _ store.Watchable) {
	s.put("/a", "1")
	_, first, err := s.List(s.ctx, "/")
	s.must(err)
	s.put("/b", "1")
	kvs, second, err := s.List(s.ctx, "/")
	s.must(err)
	if first <= 0 || second <= first || kvs[0].Revision >= kvs[1].Revision || kvs[1].Revision != second {
		t.Errorf("revisions %d, %d; keys %v", first, second, kvs)
	}
}

func watchEnds(t *testing.T, s *suite, w store.Watchable) {
	ctx, cancel := context.WithCancel(s.ctx)
	ch, err := w.Watch(ctx, 0, "/")
	s.must(err)
	cancel()
	for b := range ch {
		if b.Err != nil {
			t.Errorf("the end of the context is no error: %v", b.Err)
		}
	}
}

func closeEndsWatch(t *testing.T, s *suite, w store.Watchable) {
	ch := s.watch(w, 0, "/")
	s.must(s.Close())
	b, ok := <-ch
	if !ok || !errors.Is(b.Err, store.ErrUnavailable) {
		t.Errorf("got %v %v, want an error", b, ok)
	}
	if _, ok := <-ch; ok {
		t.Error("the channel is still open")
	}
}
