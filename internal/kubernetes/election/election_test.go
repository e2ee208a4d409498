package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/kubernetes/election"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ttl is longer than any test: passing tests did not wait for it.
const ttl = 10 * time.Minute

func newElector(t *testing.T, s *etcd.Store, name string, ttl time.Duration) *election.Elector {
	t.Helper()
	e, err := election.New(election.Options{
		Store: s, Name: name, TTL: ttl, CallTimeout: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("instance", name),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type term struct {
	leads   chan leading
	waiting chan struct{}
	// stop ends the instance. ended receives the result of Lead.
	stop  context.CancelFunc
	ended chan error
}

type leading struct {
	ctx   context.Context
	store store.Broker
}

func lead(t *testing.T, e *election.Elector) *term {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	x := &term{leads: make(chan leading, 1), waiting: make(chan struct{}, 10), stop: cancel, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.ended <- e.Lead(ctx, func() { x.waiting <- struct{}{} }, func(ctx context.Context, s store.Broker) error {
			x.leads <- leading{ctx, s}
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return x
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing after 20 s", what)
		panic("unreachable")
	}
}

func candidates(t *testing.T, s *etcd.Store) (out []string, leases []int64) {
	t.Helper()
	response, err := s.Client().Get(context.Background(), election.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range response.Kvs {
		out, leases = append(out, string(kv.Value)), append(leases, kv.Lease)
	}
	return out, leases
}

func TestOneLeadsAndTheOthersStandByUntilItStops(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	a := lead(t, newElector(t, s, "a", ttl))
	await(t, "a leads", a.leads)
	b := lead(t, newElector(t, s, "b", ttl))
	await(t, "b waits", b.waiting)
	if names, _ := candidates(t, s); fmt.Sprint(names) != "[a b]" {
		t.Errorf("candidates: %v", names)
	}
	if len(a.waiting) != 0 || len(b.leads) != 0 {
		t.Error("a waits, or b leads")
	}
	a.stop()
	if err := await(t, "a ends", a.ended); err != nil {
		t.Errorf("a ended with %v", err)
	}
	await(t, "b leads", b.leads)
}

// The TTL is minutes, so the watch of the key reports the loss.
func TestLossOfLeadershipIsNoticedAtOnce(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, s *etcd.Store){
		"lease revoked": func(t *testing.T, s *etcd.Store) {
			_, leases := candidates(t, s)
			if _, err := s.Client().Revoke(context.Background(), clientv3.LeaseID(leases[0])); err != nil {
				t.Fatal(err)
			}
		},
		"key deleted": func(t *testing.T, s *etcd.Store) {
			if err := s.DeletePrefix(context.Background(), election.DefaultPrefix); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := etcdtest.Start(t).Store()
			a := lead(t, newElector(t, s, "a", ttl))
			l := await(t, "a leads", a.leads)
			take(t, s)
			await(t, "the term's context ends", l.ctx.Done())
			if err := await(t, "Lead returns", a.ended); !errors.Is(err, ksr.ErrNotLeader) {
				t.Errorf("Lead returned %v", err)
			}
		})
	}
}

// etcd rejects all writes of an ex-leader, even before it notices.
func TestExLeaderWritesNothing(t *testing.T) {
	s := etcdtest.Start(t).Store()
	ctx := context.Background()
	a := lead(t, newElector(t, s, "a", ttl))
	l := await(t, "a leads", a.leads)
	if err := l.store.Put(ctx, "/x/kept", []byte("1")); err != nil {
		t.Fatal(err)
	}
	b := lead(t, newElector(t, s, "b", ttl))
	await(t, "b waits", b.waiting)
	_, leases := candidates(t, s)
	if _, err := s.Client().Revoke(ctx, clientv3.LeaseID(leases[0])); err != nil {
		t.Fatal(err)
	}
	await(t, "b leads", b.leads)

	before, _, _ := s.Get(ctx, "/x/kept")
	for name, write := range map[string]func() error{
		"Put":          func() error { return l.store.Put(ctx, "/x/a", []byte("2")) },
		"Delete":       func() error { return l.store.Delete(ctx, "/x/kept") },
		"DeletePrefix": func() error { return l.store.DeletePrefix(ctx, "/x/") },
		"Batch": func() error {
			return store.Apply(ctx, l.store, []store.Change{{KV: store.KV{Key: "/x/b"}}, {KV: store.KV{Key: "/x/kept"}, Deleted: true}})
		},
		"PutIfNotExists":   func() error { _, err := l.store.PutIfNotExists(ctx, "/x/c", nil); return err },
		"CompareAndSwap":   func() error { _, err := l.store.CompareAndSwap(ctx, "/x/kept", []byte("1"), nil); return err },
		"CompareAndDelete": func() error { _, err := l.store.CompareAndDelete(ctx, "/x/kept", []byte("1")); return err },
	} {
		if err := write(); !errors.Is(err, ksr.ErrNotLeader) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kvs, _, err := s.List(ctx, "/x/")
	if err != nil || len(kvs) != 1 || kvs[0].Revision != before.Revision {
		t.Errorf("etcd holds %v, %v", kvs, err)
	}
}

func TestLeaderSurvivesAShortOutageOfEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	a := lead(t, newElector(t, s, "a", ttl))
	l := await(t, "a leads", a.leads)
	server.Stop()
	server.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for l.store.Put(ctx, "/x/a", nil) != nil && ctx.Err() == nil && l.ctx.Err() == nil {
	}
	if l.ctx.Err() != nil || ctx.Err() != nil {
		t.Errorf("the term ended: %v", context.Cause(l.ctx))
	}
}

func TestWipedEtcdEndsTheTerm(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	a := lead(t, newElector(t, s, "a", 3*time.Second))
	await(t, "a leads", a.leads)
	server.Stop()
	server.Wipe()
	server.Start()
	if err := await(t, "Lead returns", a.ended); !errors.Is(err, ksr.ErrNotLeader) {
		t.Errorf("Lead returned %v", err)
	}
}

func TestEtcdThatIsDownIsAnError(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	server.Stop()
	a := lead(t, newElector(t, s, "a", ttl))
	if err := await(t, "Lead returns", a.ended); err == nil || errors.Is(err, ksr.ErrNotLeader) {
		t.Errorf("Lead returned %v", err)
	}
}

func TestTTLThatCannotBeUsedIsRefused(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2500 * time.Millisecond, -time.Second} {
		if _, err := election.New(election.Options{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "use whole seconds") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}

func TestStoreOfALoneInstance(t *testing.T) {
	s := election.Alone(etcdtest.Start(t).Store())
	ctx := context.Background()
	err := s.Batch(ctx, []store.Change{{KV: store.KV{Key: "/x/a", Value: []byte("1")}}, {KV: store.KV{Key: "/x/b", Value: []byte("2")}}, {KV: store.KV{Key: "/x/c"}, Deleted: true}})
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := s.Get(ctx, "/x/a")
	b, _, _ := s.Get(ctx, "/x/b")
	if string(a.Value) != "1" || string(b.Value) != "2" || a.Revision != b.Revision {
		t.Errorf("a: %+v, b: %+v", a, b)
	}
	for i, want := range []bool{true, false} {
		if put, err := s.PutIfNotExists(ctx, "/x/d", nil); put != want || err != nil {
			t.Errorf("PutIfNotExists %d: %v, %v", i, put, err)
		}
	}
	if swapped, err := s.CompareAndSwap(ctx, "/x/a", []byte("2"), nil); swapped || err != nil {
		t.Errorf("CompareAndSwap of another value: %v, %v", swapped, err)
	}
	if deleted, err := s.CompareAndDelete(ctx, "/x/b", []byte("2")); !deleted || err != nil {
		t.Errorf("CompareAndDelete: %v, %v", deleted, err)
	}
	if err := s.Batch(ctx, []store.Change{{KV: store.KV{Key: "/x/a"}}, {KV: store.KV{Key: "/x/a"}}}); err == nil {
		t.Error("two changes of a key: no error")
	}
}
