package podmanager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func TestNewPodIsOneWrite(t *testing.T) {
	local := memory.New()
	n := plugintest.StartNode(t, plugintest.NodeOptions{Local: local})
	_, before, err := local.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	add(t, n, request("web", "c1"))
	kvs, after, err := local.List(ctx, "/local/")
	if err != nil || after != before+1 {
		t.Errorf("%d writes, %v", after-before, err)
	}
	var keys []string
	for _, kv := range kvs {
		if strings.Contains(kv.Key, "/pods/") {
			keys = append(keys, kv.Key)
		}
	}
	if got, want := strings.Join(keys, " "), "/local/ipam/pods/default/web "+podmanager.StorePrefix+"default/web"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewPodThatCannotBeRemembered(t *testing.T) {
	local := memory.New()
	n := plugintest.StartNode(t, plugintest.NodeOptions{Local: local})
	n.Change(nil, &pod.Pod{Name: "web", Namespace: "default", NodeName: "node1"}) // holds the address
	local.SetAvailable(false)
	reply, err := n.Server.Add(ctx, request("web", "c1"))
	if err != nil || !strings.Contains(reply.GetError(), "remember pod default/web and its addresses") {
		t.Errorf("got %v, %v", reply, err)
	}
	if got := wired(n); got != "" {
		t.Errorf("wired: %s", got)
	}
	local.SetAvailable(true)
	add(t, n, request("web", "c1"))
	if got := wired(n); got != "web:c1" {
		t.Errorf("wired: %s", got)
	}
	if _, found, err := local.Get(ctx, "/local/ipam/pods/default/web"); !found || err != nil {
		t.Errorf("the address is not remembered, though it is that of the attempt before: %v", err)
	}
}

type slowDisk struct {
	*memory.Store
	slow          atomic.Bool
	begun, finish chan struct{}
	writes        atomic.Int32
}

func (d *slowDisk) Batch(ctx context.Context, changes []store.Change) error {
	if d.slow.Load() {
		d.begun <- struct{}{}
		<-d.finish
	}
	d.writes.Add(1)
	return d.Store.Batch(ctx, changes)
}

// Pods are wired while the disk is busy, and their records are written together. No ADD returns
// before its records are on disk.
func TestPodsAreWiredWhileTheDiskIsBusy(t *testing.T) {
	disk := &slowDisk{Store: memory.New(), begun: make(chan struct{}), finish: make(chan struct{})}
	n := plugintest.StartNode(t, plugintest.NodeOptions{Disk: disk})
	disk.slow.Store(true)
	const pods = 10
	added := make(chan string, pods)
	var adding sync.WaitGroup
	start := func(i int) {
		adding.Go(func() {
			if reply, err := n.Server.Add(ctx, request(fmt.Sprint("pod-", i), fmt.Sprint("c", i))); err != nil || reply.GetResult() != 0 {
				t.Errorf("ADD: %v, %v", reply, err)
			}
			added <- fmt.Sprint("pod-", i)
		})
	}
	start(0)
	<-disk.begun
	for i := range pods {
		if i > 0 {
			start(i)
		}
		for { // until it is wired; the loop serves CHECK
			reply, err := n.Server.Check(ctx, request(fmt.Sprint("pod-", i), fmt.Sprint("c", i)))
			if err == nil && reply.GetResult() == 0 {
				break
			}
		}
	}
	select {
	case pod := <-added:
		t.Errorf("ADD of %s returned before it was on the disk", pod)
	default:
	}
	disk.finish <- struct{}{}
	<-disk.begun
	disk.slow.Store(false)
	disk.finish <- struct{}{}
	adding.Wait()
	if writes := disk.writes.Load(); writes > pods/2 {
		t.Errorf("%d pods took %d writes", pods, writes)
	}
	if kvs, _, err := disk.List(ctx, podmanager.StorePrefix); err != nil || len(kvs) != pods {
		t.Errorf("%d pods on the disk, %v", len(kvs), err)
	}
}
