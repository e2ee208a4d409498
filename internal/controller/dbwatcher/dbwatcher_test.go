package dbwatcher_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ksr  = "/vnf-agent/contiv-ksr/"
	node = "/vnf-agent/node1/"

	podKey = ksr + "k8s/pod/web/namespace/default"
	ifKey  = node + "config/vpp/v2/interfaces/tap1"
)

func podValue(ip string) string {
	return fmt.Sprintf(`{"name":"web","namespace":"default","ip_address":%q}`, ip)
}

type loop struct {
	mu     sync.Mutex
	events []controller.Event
	full   bool
	pushed chan controller.Event // receives the events if not nil
	// process completes the events at once.
	process bool
	lost    []string
}

func (l *loop) PushEvent(_ context.Context, e controller.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return controller.ErrQueueFull
	}
	if lost, ok := e.(*controller.DBLost); ok { // no effects
		l.lost = append(l.lost, lost.String())
		return nil
	}
	if l.pushed != nil {
		l.pushed <- e
		return nil
	}
	l.events = append(l.events, e)
	if l.process {
		processedBy(e)
	}
	return nil
}

func (l *loop) last() *controller.DBResync {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[len(l.events)-1].(*controller.DBResync)
}

func (l *loop) setFull(full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = full
}

// rig is a watcher between two memory stores and a loop, in a synctest bubble.
type rig struct {
	*loop
	t       *testing.T
	ctx     context.Context
	remote  *memory.Store
	local   *memory.Store
	config  controller.Config
	watcher *dbwatcher.Watcher
	// may be nil
	feedback   dbwatcher.Feedback
	standalone bool
	// base is the revision of the database before the test.
	base int64
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{loop: &loop{}, t: t, ctx: t.Context(), remote: memory.New(), local: memory.New(), config: controller.DefaultConfig()}
		_, r.base, _ = r.remote.List(r.ctx, "")
		test(t, r)
		if r.watcher != nil {
			r.watcher.Close()
		}
	})
}

func (r *rig) start() {
	r.watcher = dbwatcher.Start(dbwatcher.Options{
		Node: "node1", Remote: r.remote, Local: r.local, Loop: r.loop, Feedback: r.feedback, Standalone: r.standalone,
		Config: r.config, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	synctest.Wait()
}

func (r *rig) put(s store.Broker, key, value string) {
	r.t.Helper()
	if err := s.Put(r.ctx, key, []byte(value)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) delete(key string) {
	r.t.Helper()
	if err := r.remote.Delete(r.ctx, key); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func describe(e controller.Event) string {
	switch e := e.(type) {
	case *controller.DBResync:
		what := "resync"
		if e.Local {
			what = "local resync"
		}
		for _, resource := range slices.Sorted(maps.Keys(e.State)) {
			for _, key := range slices.Sorted(maps.Keys(e.State[resource])) {
				what += " " + resource + "=" + key
			}
		}
		for _, key := range slices.Sorted(maps.Keys(e.External)) {
			what += " ext=" + key
		}
		return what
	case *controller.KubeStateChange:
		what := "change"
		switch {
		case e.PrevValue == nil:
			what = "add"
		case e.NewValue == nil:
			what = "delete"
		}
		return fmt.Sprintf("%s %s=%s", what, e.Resource, e.Key)
	case *controller.ExternalConfigChange:
		what := "external from " + e.Source
		for _, key := range slices.Sorted(maps.Keys(e.Changes)) {
			sign := "+"
			if e.Changes[key] == nil {
				sign = "-"
			}
			what += " " + sign + key
		}
		return what
	}
	return fmt.Sprint(e)
}

func (r *rig) want(events ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, e := range r.events {
		got = append(got, describe(e))
	}
	r.events = nil
	if diff := cmp.Diff(events, got, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (r *rig) wantMirror(keys ...string) {
	r.t.Helper()
	kvs, _, err := r.local.List(r.ctx, "/vnf-agent/")
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for _, kv := range kvs {
		got = append(got, kv.Key)
	}
	if diff := cmp.Diff(keys, got, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("mirror (-want +got):\n%s", diff)
	}
}

func TestSnapshotThenChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.put(r.remote, "/vnf-agent/node2/config/vpp/v2/interfaces/other", `{"name":"other"}`)
		r.put(r.remote, ksr+"status/gauges", `{}`)
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default ext=config/vpp/v2/interfaces/tap1")
		if err := r.watcher.Connected(); err != nil {
			t.Error(err)
		}

		r.put(r.remote, podKey, podValue("10.1.1.2"))
		r.put(r.remote, ksr+"allocatedIDs/1", `{"id":1,"name":"node1"}`)
		r.put(r.remote, ifKey, `{"name":"tap1","enabled":true}`)
		r.delete(podKey)
		r.delete(ifKey)
		r.put(r.remote, ksr+"status/gauges", `{}`)
		r.put(r.remote, node+"status/interface/tap1", `{}`)
		r.put(r.remote, "/vnf-agent/node11/config/vpp/v2/interfaces/other", `{"name":"other"}`)
		r.want(
			"change pod=k8s/pod/web/namespace/default",
			"add vppnode=allocatedIDs/1",
			"external from db +config/vpp/v2/interfaces/tap1",
			"delete pod=k8s/pod/web/namespace/default",
			"external from db -config/vpp/v2/interfaces/tap1",
		)
	})
}

func TestChangesOfOneTransactionStayTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		r.remote.Batch(r.ctx, []store.Change{
			{KV: store.KV{Key: node + "config/vpp/v2/interfaces/a", Value: []byte(`{"name":"a"}`)}},
			{KV: store.KV{Key: node + "config/vpp/v2/interfaces/b", Value: []byte(`{"name":"b"}`)}},
		})
		synctest.Wait()
		r.want("external from db +config/vpp/v2/interfaces/a +config/vpp/v2/interfaces/b")
	})
}

func TestRepeatedValuesAreNoChange(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.put(r.remote, podKey, podValue(""))
		r.delete(ksr + "k8s/pod/unknown/namespace/x")
		r.want()
	})
}

func TestUnreadableValuesAreSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		broken := ksr + "k8s/node/broken"
		r.put(r.remote, broken, `{`)
		r.put(r.remote, node+"config/vpp/v2/interface/typo", `{}`)
		r.put(r.remote, podKey, podValue(""))
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default ext=config/vpp/v2/interfaces/tap1")
		r.put(r.remote, podKey, `not JSON`)
		r.put(r.remote, ifKey, `{"name":"another"}`)
		r.want()
		r.put(r.remote, broken, `{"name":"broken"}`)
		r.want("add node=k8s/node/broken")

		// The last readable value stays in force and in the mirror.
		r.watcher.RequestResync()
		synctest.Wait()
		r.want("resync node=k8s/node/broken pod=k8s/pod/web/namespace/default ext=config/vpp/v2/interfaces/tap1")
		r.wantMirror(broken, podKey, ifKey)
	})
}

// A value under the key of another object would leave an object that the deletion of its key does not
// remove. It is reported, and the previous value of the key stays.
func TestValuesOfOtherKeysAreInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		phantom := ksr + "k8s/pod/phantom/namespace/default"
		r.put(r.remote, phantom, podValue("10.1.1.9"))
		r.put(r.remote, podKey, podValue(""))
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.put(r.remote, podKey, `{"name":"web","namespace":"kube-system"}`)
		r.put(r.remote, ksr+"k8s/service/web/namespace/default", `{"name":"web"}`)
		r.put(r.remote, ksr+"k8s/node/node2", `{"name":"node1"}`)
		r.want()
		want := `4 values of the cluster's state in etcd are INVALID, such as: ` + ksr + `k8s/node/node2: value describes another object, whose key is "k8s/node/node1"`
		if got := r.watcher.Problems(r.ctx); len(got) != 1 || got[0] != want {
			t.Errorf("problems %q", got)
		}
		r.delete(phantom)
		r.delete(ksr + "k8s/service/web/namespace/default")
		r.put(r.remote, ksr+"k8s/node/node2", `{"name":"node2"}`)
		r.want("add node=k8s/node/node2")
		r.delete(podKey)
		r.want("delete pod=k8s/pod/web/namespace/default")
		if got := r.watcher.Problems(r.ctx); got != nil {
			t.Errorf("problems afterwards %q", got)
		}
		r.put(r.remote, ksr+"allocatedIDs/7", "{")
		r.put(r.remote, ksr+"k8s/nodeconfig/node9", "{")
		r.want()
		if got := r.watcher.Problems(r.ctx); len(got) != 1 || !strings.HasPrefix(got[0], "1 value of the cluster's state in etcd is INVALID, such as: "+ksr+"allocatedIDs/7: value is no JSON of ") {
			t.Errorf("problems of an unreadable record: %q", got)
		}
	})
}

func TestMirrorFollowsTheDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.local, podKey, podValue("old"))
		r.put(r.local, ksr+"k8s/pod/gone/namespace/default", `{}`)
		r.put(r.local, node+"config/vpp/v2/interfaces/gone", `{}`)
		r.put(r.remote, podKey, podValue("new"))
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.put(r.remote, ksr+"status/gauges", `{}`)
		r.start()
		r.wantMirror(podKey, ifKey)
		kv, _, _ := r.local.Get(r.ctx, podKey)
		if string(kv.Value) != podValue("new") {
			t.Errorf("mirrored %s", kv.Value)
		}
		r.put(r.remote, ksr+"k8s/namespace/default", `{"name":"default"}`)
		r.delete(podKey)
		r.delete(ifKey)
		r.wantMirror(ksr + "k8s/namespace/default")
	})
}

func TestMirrorLeavesOtherLocalKeysAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.local, "/local/pods/1", "x")
		r.start()
		if _, ok, _ := r.local.Get(r.ctx, "/local/pods/1"); !ok {
			t.Error("/local/ was swept")
		}
	})
}

func TestMirrorIsCompletedAfterAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		r.local.SetAvailable(false)
		r.put(r.remote, podKey, podValue(""))
		r.want("add pod=k8s/pod/web/namespace/default")
		r.local.SetAvailable(true)
		r.wantMirror()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		r.wantMirror(podKey)
		r.want()
	})
}

func TestStartFromTheMirror(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.local, podKey, podValue(""))
		r.put(r.local, ifKey, `{"name":"tap1"}`)
		r.remote.SetAvailable(false)
		r.start()
		time.Sleep(4900 * time.Millisecond)
		r.want()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		r.want("local resync pod=k8s/pod/web/namespace/default ext=config/vpp/v2/interfaces/tap1")
		if r.watcher.Connected() == nil {
			t.Error("connected")
		}
		time.Sleep(time.Minute)
		r.want()

		r.put(r.local, podKey, podValue("old")) // no other writer
		r.remote.SetAvailable(true)
		r.put(r.remote, podKey, podValue(""))
		time.Sleep(4 * time.Second)
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.wantMirror(podKey)
	})
}

func TestEmptyMirrorIsNoStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.remote.SetAvailable(false)
		r.start()
		time.Sleep(time.Minute)
		r.want()
	})
}

func TestOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.remote.SetAvailable(false)
		synctest.Wait()
		if err := r.watcher.Connected(); err == nil {
			t.Error("connected")
		}
		time.Sleep(time.Hour)
		r.want()
		r.remote.SetAvailable(true)
		synctest.Wait()
		time.Sleep(4 * time.Second)
		if resync := r.last(); len(r.lost) != 1 || !strings.Contains(r.lost[0], "outage") || resync.Outage.Round(time.Minute) != time.Hour ||
			!strings.Contains(resync.String(), "from etcd, unreachable for 1h0m0") {
			t.Errorf("%q, then after %v: %s", r.lost, resync.Outage, resync)
		}
		r.want("resync pod=k8s/pod/web/namespace/default")
		if err := r.watcher.Connected(); err != nil {
			t.Error(err)
		}
		r.delete(podKey)
		r.want("delete pod=k8s/pod/web/namespace/default")
	})
}

// A database that lost its data is ignored until it is refilled.
func TestWipedDatabase(t *testing.T) {
	const own, other = ksr + "allocatedIDs/1", ksr + "allocatedIDs/2"
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.put(r.remote, own, `{"id":1,"name":"node1"}`)
		r.put(r.remote, other, `{"id":2,"name":"node2"}`)
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default vppnode=allocatedIDs/1 vppnode=allocatedIDs/2")
		r.remote.Wipe()
		for i := range 10 { // KSR is fast: the revision exceeds the last known one
			r.remote.Put(r.ctx, fmt.Sprintf("%sk8s/node/n%d", ksr, i), fmt.Appendf(nil, `{"name":"n%d"}`, i))
		}
		time.Sleep(3 * time.Second)
		r.want()
		r.wantMirror(own, other, podKey)
		if kv, ok, _ := r.remote.Get(r.ctx, own); !ok || !strings.Contains(string(kv.Value), "node1") {
			t.Errorf("the agent has not written its own value again: %s", kv.Value)
		}
		if _, ok, _ := r.remote.Get(r.ctx, other); ok {
			t.Error("the agent has written an entry of another agent")
		}
		for i := range 10 {
			r.remote.Delete(r.ctx, fmt.Sprintf("%sk8s/node/n%d", ksr, i))
		}
		r.put(r.remote, podKey, podValue(""))
		time.Sleep(3 * time.Second)
		r.want()
		r.put(r.remote, other, `{"id":2,"name":"node2"}`)
		time.Sleep(2 * time.Second)
		r.want("resync pod=k8s/pod/web/namespace/default vppnode=allocatedIDs/1 vppnode=allocatedIDs/2")
		if err := r.watcher.Connected(); err != nil {
			t.Error(err)
		}
		r.delete(podKey)
		r.want("delete pod=k8s/pod/web/namespace/default")
	})
}

func TestWipedDatabaseThatStaysEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.remote.Wipe()
		time.Sleep(29 * time.Second)
		r.want()
		if r.watcher.Connected() == nil {
			t.Error("connected")
		}
		time.Sleep(5 * time.Second)
		r.want("resync")
		r.wantMirror()
	})
}

// Changes during an outage are not mistaken for a loss of data.
func TestChangesDuringAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.put(r.remote, ksr+"k8s/node/n1", `{"name":"n1"}`)
		r.start()
		r.put(r.remote, podKey, podValue("1"))
		r.want("resync node=k8s/node/n1 pod=k8s/pod/web/namespace/default", "change pod=k8s/pod/web/namespace/default")
		time.Sleep(10 * time.Second)
		r.remote.SetAvailable(false)
		synctest.Wait()
		r.remote.SetAvailable(true)
		r.remote.Put(r.ctx, podKey, []byte(podValue("2")))
		r.remote.Delete(r.ctx, ksr+"k8s/node/n1")
		time.Sleep(4 * time.Second)
		r.want("resync pod=k8s/pod/web/namespace/default")
	})
}

// silent hides the end of watches, as a proxy might.
type silent struct{ *memory.Store }

func (s silent) Watch(ctx context.Context, revision int64, prefixes ...string) (<-chan store.WatchBatch, error) {
	in, err := s.Store.Watch(ctx, revision, prefixes...)
	if err != nil {
		return nil, err
	}
	out := make(chan store.WatchBatch)
	go func() {
		defer close(out)
		for batch := range in {
			if batch.Err == nil {
				out <- batch
			}
		}
		<-ctx.Done()
	}()
	return out, nil
}

// List refuses prefixes that the node's etcd user may not read.
func (s silent) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	if !strings.HasPrefix(prefix, ksr) && !strings.HasPrefix(prefix, "/vnf-agent/node1/") {
		return nil, 0, errors.New("permission denied")
	}
	return s.Store.List(ctx, prefix)
}

func TestWipedDatabaseIsNoticedByItsRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, podKey, podValue(""))
		r.watcher = dbwatcher.Start(dbwatcher.Options{
			Node: "node1", Remote: silent{r.remote}, Local: r.local, Loop: r.loop,
			Config: controller.DefaultConfig(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		synctest.Wait()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.remote.Wipe()
		time.Sleep(4 * time.Second)
		if err := r.watcher.Connected(); err == nil || !strings.Contains(err.Error(), "wiped") {
			t.Errorf("got %v", err)
		}
		time.Sleep(40 * time.Second)
		r.want("resync")
	})
}

func TestFullQueueEndsInAResync(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		r.setFull(true)
		r.put(r.remote, podKey, podValue(""))
		r.setFull(false)
		r.put(r.remote, podKey, podValue("10.1.1.2")) // the loop does not know the pod: no change of it
		r.want()
		r.wantMirror(podKey)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r.want("resync pod=k8s/pod/web/namespace/default")
		r.delete(podKey)
		r.want("delete pod=k8s/pod/web/namespace/default")
	})
}

// Continuous bursts cause at most one resync per interval.
func TestBurstsThatGoOnEndInOneResyncEachInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		burst := func(address string) {
			r.setFull(true)
			r.put(r.remote, podKey, podValue(address))
			r.setFull(false)
		}
		burst("")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r.want("resync pod=k8s/pod/web/namespace/default")
		burst("10.1.1.2")
		time.Sleep(time.Second)
		synctest.Wait()
		r.want()
		time.Sleep(4 * time.Second)
		r.want("resync pod=k8s/pod/web/namespace/default")
	})
}

func TestResyncIsRepeatedUntilItIsAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.setFull(true)
		r.start()
		time.Sleep(20 * time.Second)
		r.setFull(false)
		r.want()
		time.Sleep(4 * time.Second)
		r.want("resync")
	})
}

func TestRequestedResync(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		if err := r.watcher.RequestResync(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want("resync")
		r.remote.SetAvailable(false)
		synctest.Wait()
		var err error
		for range 11 {
			err = r.watcher.RequestResync()
		}
		if err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("request 11: %v", err)
		}
	})
}

// A watch that falls behind a compaction restarts with a snapshot.
func TestCompaction(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.pushed = make(chan controller.Event)
		r.start()
		<-r.pushed
		r.remote.Put(r.ctx, podKey, []byte(podValue("1"))) // blocks the watcher in PushEvent
		synctest.Wait()
		for i := range 10 {
			r.remote.Put(r.ctx, podKey, []byte(podValue(fmt.Sprint(i))))
		}
		r.remote.Compact(12)
		var got []string
		for len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "resync") {
			got = append(got, describe(<-r.pushed))
		}
		if len(got) > 3 {
			t.Errorf("events until the resync: %q", got)
		}
	})
}

// Events add up to the content of the database, whatever changes between the watch and the
// snapshot.
func TestNoGapBetweenSnapshotAndWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		writer := make(chan struct{})
		go func() {
			defer close(writer)
			for i := range 300 {
				key := fmt.Sprintf("%sk8s/node/n%d", ksr, i%7)
				if i%3 == 0 {
					r.remote.Delete(r.ctx, key)
				} else {
					r.remote.Put(r.ctx, key, fmt.Appendf(nil, `{"pod_CIDR":"%d","name":"n%d"}`, i, i%7))
				}
			}
		}()
		r.watcher = dbwatcher.Start(dbwatcher.Options{
			Node: "node1", Remote: r.remote, Local: r.local, Loop: r.loop,
			Config: controller.DefaultConfig(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		<-writer
		synctest.Wait()
		state := map[string]string{}
		for _, e := range r.events {
			switch e := e.(type) {
			case *controller.DBResync:
				clear(state)
				for key, value := range e.State["node"] {
					state[key] = fmt.Sprint(value)
				}
			case *controller.KubeStateChange:
				delete(state, e.Key)
				if e.NewValue != nil {
					state[e.Key] = fmt.Sprint(e.NewValue)
				}
			}
		}
		kvs, _, _ := r.remote.List(r.ctx, ksr)
		if len(state) != len(kvs) {
			t.Errorf("%d keys in the events, %d in the database", len(state), len(kvs))
		}
		for _, kv := range kvs {
			if !strings.Contains(state[strings.TrimPrefix(kv.Key, ksr)], strings.Split(string(kv.Value), `"`)[3]) {
				t.Errorf("%s: %s and %s", kv.Key, kv.Value, state[strings.TrimPrefix(kv.Key, ksr)])
			}
		}
	})
}
