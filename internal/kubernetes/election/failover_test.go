package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type script chan ksr.Changes

func (s script) Run(ctx context.Context, report func(ksr.Changes)) error {
	for {
		select {
		case c := <-s:
			report(c)
		case <-ctx.Done():
			return nil
		}
	}
}

type reaching struct {
	script
	reach ksr.Reach
}

func (r *reaching) Reach() *ksr.Reach { return &r.reach }

type instance struct {
	*ksr.Reflector
	source script
	reach  *ksr.Reach
	stop   func()
}

const resignAfter = 20 * time.Millisecond

func start(t *testing.T, s *etcd.Store, name string, ttl time.Duration) *instance {
	t.Helper()
	return startResigning(t, s, name, ttl, resignAfter)
}

func startResigning(t *testing.T, s *etcd.Store, name string, ttl, resignAfter time.Duration) *instance {
	t.Helper()
	source := &reaching{script: make(script)}
	i := &instance{source: source.script, reach: &source.reach}
	i.Reflector = ksr.New(ksr.Options{
		Source: source, Elector: newElector(t, s, name, ttl), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("instance", name),
		RetryMin: time.Millisecond, RetryMax: 100 * time.Millisecond, CheckInterval: 10 * time.Millisecond, CallTimeout: 2 * time.Second,
		ResignAfter: resignAfter,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := i.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	i.stop = func() { cancel(); <-done }
	t.Cleanup(i.stop)
	return i
}

func pods(n, generation int) ksr.Changes {
	c := ksr.Changes{Complete: true}
	for i := range n {
		c.Set = append(c.Set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("p", i), Namespace: "default", UID: "u", Labels: map[string]string{"generation": strconv.Itoa(generation)},
		}})
	}
	return c
}

func awaitRole(t *testing.T, i *instance, role ksr.Role) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); i.Status().Role != role; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("status: %+v, want role %s", i.Status(), role)
		}
	}
}

const podPrefix = "/vnf-agent/contiv-ksr/k8s/pod/"

// In each round all pods change, and the leader's lease is revoked during the writes. In etcd, each
// pod must go through the generations in order, without repetition.
func TestFailOverNeverWritesTwice(t *testing.T) {
	const n, rounds = 500, 10
	s := etcdtest.Start(t).Store()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	watch, err := s.Watch(ctx, 0, podPrefix)
	if err != nil {
		t.Fatal(err)
	}
	a, b := start(t, s, "a", ttl), start(t, s, "b", ttl)
	last := make(map[string]int)
	for round := 1; round <= rounds; round++ {
		for _, i := range []*instance{a, b} {
			i.source <- pods(n, round)
		}
		for _, i := range []*instance{a, b} {
			i.source <- ksr.Changes{Complete: true}
		}
		if round > 1 {
			killLeader(t, s)
		}
		for written := 0; written < n; {
			batch, ok := <-watch
			if !ok || batch.Err != nil {
				t.Fatalf("round %d: watch ended: %v", round, batch.Err)
			}
			for _, c := range batch.Changes {
				g := generationOf(t, c)
				if g <= last[c.Key] {
					t.Fatalf("round %d: %s went from generation %d to %d", round, c.Key, last[c.Key], g)
				}
				if last[c.Key] = g; g == round {
					written++
				}
			}
		}
	}
	if resyncs := a.Stats()[ksr.Pod].Resyncs + b.Stats()[ksr.Pod].Resyncs; resyncs < rounds/2 {
		t.Errorf("%d resyncs in %d rounds: the leadership was not lost", resyncs, rounds)
	}
}

func generationOf(t *testing.T, c store.Change) int {
	t.Helper()
	if c.Deleted {
		t.Fatalf("%s was deleted", c.Key)
	}
	var p pod.Pod
	if err := protojson.Unmarshal(c.Value, &p); err != nil {
		t.Fatal(err)
	}
	g, err := strconv.Atoi(p.GetLabels()["generation"])
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func killLeader(t *testing.T, s *etcd.Store) {
	t.Helper()
	_, leases := candidates(t, s)
	if len(leases) == 0 {
		return
	}
	_, err := s.Client().Revoke(context.Background(), clientv3.LeaseID(leases[0]))
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatal(err)
	}
}

func TestStandbyTakesOverWithoutRewriting(t *testing.T) {
	s := etcdtest.Start(t).Store()
	ctx := context.Background()
	a := start(t, s, "a", ttl)
	a.source <- pods(200, 1)
	<-a.Synced()
	b := start(t, s, "b", ttl)
	b.source <- pods(200, 1)
	awaitRole(t, b, ksr.Standby)
	if code := readiness(b); code != http.StatusOK {
		t.Errorf("readiness of the standby: %d", code)
	}
	if b.Status().EverSynced {
		t.Error("the standby claims to have written")
	}

	killLeader(t, s)
	<-b.Synced()
	awaitRole(t, b, ksr.Leader)
	awaitRole(t, a, ksr.Standby)
	kvs, _, err := s.List(ctx, podPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Stats()[ksr.Pod]; len(kvs) != 200 || got.Adds+got.Updates+got.Deletes != 0 {
		t.Errorf("%d pods in etcd, b wrote %+v", len(kvs), got)
	}

	b.stop()
	awaitRole(t, a, ksr.Leader)
	a.source <- ksr.Changes{Deleted: []ksr.Ref{{Kind: ksr.Pod, Namespace: "default", Name: "p0"}}, Complete: true}
	for deadline := time.Now().Add(20 * time.Second); len(kvs) != 199 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		kvs, _, _ = s.List(ctx, podPrefix)
	}
	if len(kvs) != 199 {
		t.Errorf("%d pods in etcd", len(kvs))
	}
}

// A candidate without objects must not lead, because it would sweep the store.
func TestInstanceWhoseSourceIsSilentDoesNotCampaign(t *testing.T) {
	s := etcdtest.Start(t).Store()
	silent := start(t, s, "silent", ttl)
	a := start(t, s, "a", ttl)
	a.source <- pods(1, 1)
	<-a.Synced()
	if names, _ := candidates(t, s); len(names) != 1 || names[0] != "a" {
		t.Errorf("candidates: %v", names)
	}
	if code := readiness(silent); code != http.StatusServiceUnavailable {
		t.Errorf("readiness of the silent one: %d", code)
	}
}

func TestWipedEtcdIsWrittenAnew(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	a := start(t, s, "a", 2*time.Second)
	a.source <- pods(10, 1)
	<-a.Synced()
	server.Stop()
	server.Wipe()
	server.Start()
	var kvs []store.KV
	for deadline := time.Now().Add(30 * time.Second); len(kvs) != 10 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		kvs, _, _ = s.List(context.Background(), podPrefix)
	}
	if len(kvs) != 10 {
		t.Errorf("%d pods in etcd; status %+v", len(kvs), a.Status())
	}
}

func readiness(i *instance) int {
	w := httptest.NewRecorder()
	i.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/readiness", nil))
	return w.Code
}
