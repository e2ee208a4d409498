package ksr

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type script chan Changes

func (s script) Run(ctx context.Context, report func(Changes)) error {
	for {
		select {
		case c := <-s:
			report(c)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s script) report(objects ...Object) { s <- Changes{Set: objects, Complete: true} }

type reflecting struct {
	*Reflector
	t      *testing.T
	store  store.Watchable
	source script
	wrong  atomic.Value
}

func (r *reflecting) sourceProblems() []string { return r.wrong.Load().([]string) }

func reflect(t *testing.T, s store.Watchable) *reflecting {
	t.Helper()
	return reflectChecking(t, s, 10*time.Millisecond)
}

func reflectChecking(t *testing.T, s store.Watchable, interval time.Duration) *reflecting {
	t.Helper()
	r := &reflecting{t: t, store: s, source: make(script)}
	r.wrong.Store([]string{"a.yaml: is empty"})
	r.Reflector = New(Options{
		Source: r.source, Store: s, Instance: "host1", Version: "v1", Problems: r.sourceProblems, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, CheckInterval: interval, CallTimeout: time.Second,
		LateAfter: 50 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// await waits until the store has the keys, except statistics, format and the common prefix. It
// watches the store and restarts after outages.
func await(t *testing.T, s store.Watchable, want ...string) {
	t.Helper()
	slices.Sort(want)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var held []string
	for ctx.Err() == nil {
		watch, watchErr := s.Watch(ctx, 0, "/vnf-agent/")
		if watchErr != nil {
			watch = nil
		}
		for {
			kvs, _, err := s.List(ctx, "/vnf-agent/")
			if held = keysIn(kvs); err == nil && slices.Equal(held, want) {
				return
			}
			if err != nil || watch == nil {
				break
			}
			if batch, ok := <-watch; !ok || batch.Err != nil {
				break
			}
		}
	}
	t.Fatalf("the store holds %q, want %q", held, want)
}

func keysIn(kvs []store.KV) (out []string) {
	for _, kv := range kvs {
		if kv.Key != GaugesKey && kv.Key != formatKey && kv.Key != published.KSRKey {
			out = append(out, strings.TrimPrefix(kv.Key, "/vnf-agent/"))
		}
	}
	slices.Sort(out)
	return out
}

func newPod(name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{}}}
	for _, l := range labels {
		p.Labels[l] = "x"
	}
	return p
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func put(t *testing.T, s store.Broker, key, value string) {
	t.Helper()
	if err := s.Put(context.Background(), "/vnf-agent/"+key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

const (
	keyA   = "contiv-ksr/k8s/pod/a/namespace/default"
	keyB   = "contiv-ksr/k8s/pod/b/namespace/default"
	keyC   = "contiv-ksr/k8s/pod/c/namespace/default"
	nodeN1 = "contiv-ksr/k8s/node/n1"
)

func TestChangesAreReflected(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source.report(newPod("a"), newNode("n1"), newNamespace("default"))
	await(t, s, keyA, nodeN1, "contiv-ksr/k8s/namespace/default")
	<-r.Synced()

	r.source <- Changes{Set: []Object{newPod("b")}, Deleted: []Ref{{Pod, "default", "a"}}, Complete: true}
	await(t, s, keyB, nodeN1, "contiv-ksr/k8s/namespace/default")
}

func TestFirstResyncMarksAndSweeps(t *testing.T) {
	s := memory.New()
	put(t, s, keyA, `{"name":"a","namespace":"default"}`)
	put(t, s, keyB, `{"name":"b","namespace":"default","label":[{"key":"old"}]}`)
	put(t, s, keyC, `no JSON`)
	put(t, s, "contiv-ksr/k8s/pod/stale/namespace/default", `{}`)
	put(t, s, "contiv-ksr/k8s/namespace/stale", `{}`)
	others := []string{"contiv-ksr/allocatedIDs/1", "contiv-ksr/k8s/nodeconfig/n1", "contiv-ksr/k8s/customnetwork/web", "n1/config/x", "contiv-ksr/idalloc/p"}
	for _, key := range others {
		put(t, s, key, `{}`)
	}
	before, _, _ := s.Get(context.Background(), "/vnf-agent/"+keyA)

	r := reflect(t, s)
	r.source.report(newPod("a"), newPod("b"), newPod("c"), newPod("d"))
	await(t, s, append(others, keyA, keyB, keyC, "contiv-ksr/k8s/pod/d/namespace/default")...)
	<-r.Synced()

	if after, _, _ := s.Get(context.Background(), "/vnf-agent/"+keyA); after.Revision != before.Revision {
		t.Error("a value that was right has been written again")
	}
	want := Stats{Adds: 1, Updates: 2, Deletes: 1, Resyncs: 1}
	if got := r.Stats()[Pod]; got != want {
		t.Errorf("statistics of pods: %+v, want %+v", got, want)
	}
}

func TestOnlyRealChangesAreWritten(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source.report(newPod("a", "x", "y", "z"))
	await(t, s, keyA)

	changed := newPod("a", "z", "y", "x")
	changed.ResourceVersion = "7"
	changed.Status.Message = "not reflected"
	r.source.report(changed)
	r.source.report(newPod("b"))
	await(t, s, keyA, keyB)
	awaitStatus(t, r, func(StoreStatus) bool { return r.Stats()[Pod].Adds == 2 })
	if got := r.Stats()[Pod]; got.Updates != 0 {
		t.Errorf("statistics: %+v", got)
	}
}

func TestIncompleteSourceSweepsNothingUntilItIsComplete(t *testing.T) {
	s := memory.New()
	put(t, s, keyB, `{}`)
	put(t, s, nodeN1, `{}`)
	put(t, s, "contiv-ksr/allocatedIDs/1", `{"id":1,"name":"n1"}`)
	r := reflect(t, s)
	r.source <- Changes{Set: []Object{newPod("a")}}
	<-r.Synced()
	await(t, s, keyA, keyB, nodeN1, "contiv-ksr/allocatedIDs/1")

	r.source <- Changes{Deleted: []Ref{{Pod, "default", "a"}}}
	await(t, s, keyB, nodeN1, "contiv-ksr/allocatedIDs/1")

	r.source <- Changes{Complete: true}
	await(t, s)
}

func TestNodeThatLeavesTakesItsDataAlong(t *testing.T) {
	for _, way := range []string{"deleted", "swept"} {
		t.Run(way, func(t *testing.T) {
			s := memory.New()
			put(t, s, "contiv-ksr/allocatedIDs/1", `{"id":1,"name":"n1","ip_addresses":["192.168.16.1/24"],"from_a_newer_version":1}`)
			put(t, s, "contiv-ksr/allocatedIDs/2", `{"id":2,"name":"n10"}`)
			put(t, s, "contiv-ksr/allocatedIDs/3", `no JSON`)
			put(t, s, "n1/config/vpp/v2/interfaces/tap", `{}`)
			put(t, s, "contiv-ksr/k8s/nodeconfig/n1", `{}`)
			put(t, s, "n10/config/vpp/v2/interfaces/tap", `{}`)
			rest := []string{"contiv-ksr/allocatedIDs/2", "contiv-ksr/allocatedIDs/3", "n10/config/vpp/v2/interfaces/tap", "contiv-ksr/k8s/node/n10",
				"contiv-ksr/k8s/nodeconfig/n1"}

			const id = "contiv-ksr/allocatedIDs/1"
			changes, err := s.Watch(t.Context(), 0, models.AgentPrefix+id, models.AgentPrefix+nodeN1)
			if err != nil {
				t.Fatal(err)
			}
			r := reflect(t, s)
			if way == "deleted" {
				r.source.report(newNode("n1"), newNode("n10"))
				<-r.Synced()
				r.source <- Changes{Deleted: []Ref{{Node, "", "n1"}}, Complete: true}
			} else {
				put(t, s, nodeN1, `{"name":"n1"}`)
				r.source.report(newNode("n10"))
			}
			await(t, s, rest...)
			var deleted []string
			for len(deleted) == 0 {
				for _, c := range (<-changes).Changes {
					if c.Deleted {
						deleted = append(deleted, strings.TrimPrefix(c.Key, models.AgentPrefix))
					}
				}
			}
			// A node without an ID would get a new one, and its agent would restore the ID.
			if want := []string{nodeN1, id}; !slices.Equal(deleted, want) {
				t.Errorf("at first, %q are deleted, want %q", deleted, want)
			}
		})
	}
}

// The CRD controller and the agents never write below a swept prefix.
func TestPrefixesOfOthersAreNotSwept(t *testing.T) {
	for _, r := range kubestate.All() {
		for _, k := range kinds {
			if swept := strings.HasPrefix(models.KSRPrefix+r.KeyPrefix, k.kind.KeyPrefix()); swept != (string(k.kind) == r.Keyword) {
				t.Errorf("keys %s… are swept with the kind %s: %v", r.KeyPrefix, k.kind, swept)
			}
		}
	}
	if r, ok := kubestate.ForKey(kubestate.NodeConfigKey("n1")); !ok || r.Keyword != kubestate.NodeConfig {
		t.Errorf("NodeConfig is no resource: %+v", r)
	}
}

func TestSweepOfOddNodeKeysDeletesNothingElse(t *testing.T) {
	s := memory.New()
	put(t, s, "contiv-ksr/k8s/node/contiv-ksr", `{}`)
	put(t, s, "contiv-ksr/k8s/node/contiv-ksr/k8s", `{}`)
	put(t, s, "contiv-ksr/k8s/node/", `{}`)
	put(t, s, "contiv-ksr/allocatedIDs/1", `{"id":1,"name":"n1"}`)
	r := reflect(t, s)
	r.source.report(newPod("a"))
	await(t, s, keyA, "contiv-ksr/allocatedIDs/1")
}

func TestOutageIsFollowedByAResync(t *testing.T) {
	s := memory.New()
	r := reflectChecking(t, s, time.Hour) // so that the change meets the outage first
	r.source.report(newPod("a"), newPod("b"))
	await(t, s, keyA, keyB)
	<-r.Synced()
	awaitGauges(t, s)

	s.SetAvailable(false)
	r.source <- Changes{Set: []Object{newPod("c")}, Deleted: []Ref{{Pod, "default", "a"}}, Complete: true}
	awaitStatus(t, r, func(st StoreStatus) bool {
		return !st.Synced && strings.Contains(st.Error, "outage") && st.EverSynced && r.Stats()[Namespace].ResErrors > 0
	})
	s.SetAvailable(true)
	await(t, s, keyB, keyC)
	awaitStatus(t, r, func(st StoreStatus) bool { return st.Synced && st.Error == "" })
	if got := r.Stats()[Pod]; got.Resyncs != 2 || got.AddErrors != 1 {
		t.Errorf("statistics: %+v", got)
	}
}

func TestStoreThatIsDownAtTheStart(t *testing.T) {
	s := memory.New()
	s.SetAvailable(false)
	r := reflect(t, s)
	r.source.report(newPod("a"))
	awaitStatus(t, r, func(st StoreStatus) bool { return st.Error != "" && !st.EverSynced })
	s.SetAvailable(true)
	await(t, s, keyA)
	<-r.Synced()
}

func TestWipedStoreIsWrittenAnew(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source.report(newPod("a"), newNode("n1"))
	await(t, s, keyA, nodeN1)
	awaitGauges(t, s)
	s.Wipe()
	await(t, s, keyA, nodeN1)
}

// The resync ends with KSR's last key. Otherwise a store wiped before the first check would look
// filled.
func TestStoreIsMarkedWithTheResync(t *testing.T) {
	s := memory.New()
	r := reflectChecking(t, s, time.Hour)
	r.source.report(newPod("a"), newNode("n1"))
	await(t, s, keyA, nodeN1)
	awaitGauges(t, s)
}

// A restored backup has our key but an older revision.
func TestStoreThatWentBackIsWrittenAnew(t *testing.T) {
	d := watchdog{}
	for _, seen := range []struct {
		kv    store.KV
		found bool
		store int64
		lost  bool
	}{
		{found: false, store: 5},
		{kv: store.KV{Revision: 6}, found: true, store: 6},
		{kv: store.KV{Revision: 6}, found: true, store: 9},
		{kv: store.KV{Revision: 6}, found: true, store: 8, lost: true},
		{kv: store.KV{Revision: 4}, found: true, store: 12, lost: true},
		{found: false, store: 12, lost: true},
		{kv: store.KV{Revision: 12}, found: true, store: 12},
	} {
		err := d.check(seen.kv, seen.found, seen.store)
		if errors.Is(err, errDataLost) != seen.lost {
			t.Errorf("%+v: %v", seen, err)
		}
		d.written = true
	}
}

func TestStatisticsArePublished(t *testing.T) {
	s := memory.New()
	r := reflect(t, s)
	r.source.report(newPod("a"), newNode("n1"))
	<-r.Synced()
	kv := awaitGauges(t, s)
	var got GaugesValue
	if err := json.Unmarshal(kv.Value, &got); err != nil {
		t.Fatal(err)
	}
	if got.PodStats.Adds != 1 || got.NodeStats.Adds != 1 || got.NamespaceStats.Resyncs != 1 {
		t.Errorf("statistics: %s", kv.Value)
	}

	body := get(t, r, "/stats", http.StatusOK)
	for _, want := range []string{`adds{node="host1",reflectorType="pod"} 1`, `resyncs{node="host1",reflectorType="namespace"} 1`, "# TYPE argErrors gauge"} {
		if !strings.Contains(body, want) {
			t.Errorf("/stats lacks %s:\n%s", want, body)
		}
	}
}

func TestReadiness(t *testing.T) {
	s := memory.New()
	s.SetAvailable(false)
	r := reflect(t, s)
	get(t, r, "/liveness", http.StatusOK)
	get(t, r, "/readiness", http.StatusServiceUnavailable)
	s.SetAvailable(true)
	r.source.report(newPod("a"))
	<-r.Synced()
	if body := get(t, r, "/readiness", http.StatusOK); !strings.Contains(body, `"sourceProblems": [`) || !strings.Contains(body, `"objects": 1`) {
		t.Error(body)
	}
	s.SetAvailable(false)
	awaitStatus(t, r, func(st StoreStatus) bool { return !st.Synced })
	get(t, r, "/liveness", http.StatusOK)
	get(t, r, "/readiness", http.StatusOK)
}

func TestWithRealEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	r := reflect(t, s)
	r.source.report(newPod("a"), newNode("n1"))
	await(t, s, keyA, nodeN1)
	awaitGauges(t, s)

	server.Stop()
	r.source <- Changes{Set: []Object{newPod("b")}, Deleted: []Ref{{Pod, "default", "a"}}, Complete: true}
	server.Start()
	await(t, s, keyB, nodeN1)

	server.Stop()
	server.Wipe()
	server.Start()
	await(t, s, keyB, nodeN1)
}

func get(t *testing.T, r *reflecting, path string, status int) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != status {
		t.Errorf("GET %s: status %d, want %d:\n%s", path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

func awaitStatus(t *testing.T, r *reflecting, ok func(StoreStatus) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok(r.Status()) {
			return
		}
	}
	t.Fatalf("status: %+v", r.Status())
}

func awaitGauges(t *testing.T, s store.Watchable) store.KV {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	watch, err := s.Watch(ctx, 0, GaugesKey)
	if err != nil {
		t.Fatal(err)
	}
	if kv, ok, _ := s.Get(ctx, GaugesKey); ok {
		return kv
	}
	batch, ok := <-watch
	if !ok || batch.Err != nil {
		t.Fatal("no statistics in the store")
	}
	return batch.Changes[0].KV
}

func TestKindsAreWrittenInTheOrderOfTheirDependencies(t *testing.T) {
	s := memory.New()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	watch, err := s.Watch(ctx, 0, "/vnf-agent/contiv-ksr/k8s/")
	if err != nil {
		t.Fatal(err)
	}
	r := reflect(t, s)
	r.source.report(newPod("a"), newNode("n1"), newNamespace("default"))
	<-r.Synced()
	r.source <- Changes{Deleted: []Ref{{Namespace, "", "default"}, {Node, "", "n1"}, {Pod, "default", "a"}}, Complete: true}
	seen := map[string]int{}
	for i := 0; i < 6; {
		for _, c := range (<-watch).Changes {
			name := c.Key
			if c.Deleted {
				name = "no " + name
			}
			seen[name] = i
			i++
		}
		if ctx.Err() != nil {
			t.Fatalf("seen %v", slices.Sorted(maps.Keys(seen)))
		}
	}
	const k = "/vnf-agent/contiv-ksr/k8s/"
	order := []string{k + "namespace/default", k + "node/n1", k + "pod/a/namespace/default", "no " + k + "pod/a/namespace/default", "no " + k + "node/n1", "no " + k + "namespace/default"}
	for i, name := range order {
		if seen[name] != i {
			t.Errorf("%s came as number %d, want %d", name, seen[name], i)
		}
	}
}
