package scale

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// northbound is an agent without plugins on a real etcd.
type northbound struct {
	tb        testing.TB
	server    *etcdtest.Server
	db        *etcd.Store
	scheduler *kvscheduler.Scheduler
	loop      *controller.Controller
	publisher *feedback.Publisher
	watcher   *dbwatcher.Watcher
	stop      func()
}

func startNorthbound(tb testing.TB, config controller.Config) *northbound {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &northbound{tb: tb, server: etcdtest.Start(tb), scheduler: kvscheduler.New(kvscheduler.Options{Logger: log})}
	n.db = n.server.Store()
	vs := fake.NewNetwork().NewNode(nodeName(1), vswitch.Capabilities{HostStackShared: true}, "eth0").Open()
	if err := descriptors.Register(n.scheduler, vs); err != nil {
		tb.Fatal(err)
	}
	local, err := bolt.Open(filepath.Join(tb.TempDir(), "bolt.db"), 0)
	if err != nil {
		tb.Fatal(err)
	}
	n.loop = controller.New(controller.Options{Config: config, Scheduler: controller.NewScheduler(n.scheduler), Log: log})
	n.loop.Start()
	remote := n.server.Store()
	n.publisher = feedback.Start(feedback.Options{Node: nodeName(1), Store: remote, Scheduler: n.scheduler, Config: config, Log: log})
	n.watcher = dbwatcher.Start(dbwatcher.Options{
		Node: nodeName(1), Remote: remote, Local: local, Loop: n.loop, Feedback: n.publisher, Config: config, Log: log,
	})
	n.stop = func() {
		n.watcher.Close()
		n.loop.Close(context.Background())
		n.publisher.Close()
		n.scheduler.Close()
		local.Close()
	}
	n.await("the startup resync", func() bool { return n.loop.Ready() == nil })
	return n
}

func (n *northbound) await(what string, done func() bool) {
	n.tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.tb.Fatalf("not within two minutes: %s", what)
		}
	}
}

func loopbackKey(i int) string { return models.VPPInterfaceKey(fmt.Sprintf("loop%d", i)) }

// put writes loopbacks; each is their number per etcd transaction.
func (n *northbound) put(values, each int) {
	n.tb.Helper()
	var changes []store.Change
	for i := range values {
		value := fmt.Appendf(nil, `{"name":"loop%d","type":"SOFTWARE_LOOPBACK","enabled":true,"ip_addresses":["10.%d.%d.1/32"],"mtu":1500}`, i, i>>8, i&255)
		changes = append(changes, store.Change{KV: store.KV{Key: models.NodePrefix(nodeName(1)) + loopbackKey(i), Value: value}})
		if len(changes) == each || i == values-1 {
			if err := n.db.Batch(context.Background(), changes); err != nil {
				n.tb.Fatal(err)
			}
			changes = nil
		}
	}
}

func (n *northbound) awaitConfigured(values int) {
	n.tb.Helper()
	n.await("all values are known", func() bool {
		return n.scheduler.ValueStatus(loopbackKey(values-1)).Value.State == pb.ValueState_CONFIGURED
	})
	n.await("all values are configured", func() bool {
		statuses := n.scheduler.ValueStatuses(models.VPPInterface.KeyPrefix() + "loop")
		for _, s := range statuses {
			if s.Value.State != pb.ValueState_CONFIGURED {
				return false
			}
		}
		return len(statuses) == values
	})
}

// awaitStatuses waits until etcd has the CONFIGURED status of all values.
func (n *northbound) awaitStatuses(values int) {
	n.tb.Helper()
	prefix := models.NodePrefix(nodeName(1)) + models.StatusPrefix
	ctx, cancel := context.WithCancel(context.Background())
	last, err := n.db.Watch(ctx, 0, prefix)
	if err != nil {
		cancel()
		n.tb.Fatal(err)
	}
	defer func() {
		cancel()
		for range last { // until the watch ends
		}
	}()
	kvs, _, err := n.db.List(ctx, prefix)
	if err != nil {
		n.tb.Fatal(err)
	}
	told := make(map[string]bool, values)
	note := func(kv store.KV) {
		if strings.Contains(string(kv.Value), `"state":"CONFIGURED"`) {
			told[kv.Key] = true
		}
	}
	for _, kv := range kvs {
		note(kv)
	}
	for len(told) < values {
		batch := <-last
		if batch.Err != nil {
			n.tb.Fatal(batch.Err)
		}
		for _, c := range batch.Changes {
			note(c.KV)
		}
	}
}

func TestNorthboundThroughEtcd(t *testing.T) {
	n := startNorthbound(t, controller.DefaultConfig())
	defer n.stop()
	transactions := func() (count int) { // northbound transactions only, because link notifications have their own
		for _, txn := range n.scheduler.History(time.Time{}, time.Time{}) {
			if txn.Type == kvscheduler.NBTransaction {
				count++
			}
		}
		return count
	}
	before := transactions()
	n.put(300, 100)
	n.awaitConfigured(300)
	n.awaitStatuses(300)
	if txns := transactions() - before; txns < 1 || txns > 3 {
		t.Errorf("3 transactions of etcd led to %d transactions", txns)
	}
}

// BenchmarkNorthboundThroughEtcd writes 10 000 values to etcd: one by one and in transactions of
// 100. It reports the configured values per second, including the writes, the time from the last
// write until all values are configured and until their status is in etcd, and the final heap of
// agent and etcd, which share the process.
func BenchmarkNorthboundThroughEtcd(b *testing.B) {
	values := unlessShort(10_000, 500)
	for _, each := range []int{1, 100} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			var settled, told time.Duration
			var used float64
			for b.Loop() {
				b.StopTimer()
				n := startNorthbound(b, controller.DefaultConfig())
				before := heap()
				b.StartTimer()
				n.put(values, each)
				written := time.Now()
				n.awaitConfigured(values)
				b.StopTimer()
				settled += time.Since(written)
				n.awaitStatuses(values)
				told += time.Since(written)
				used = heap() - before
				n.stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*values)/b.Elapsed().Seconds(), "values/s")
			b.ReportMetric(float64(settled.Milliseconds())/float64(b.N), "ms-settled")
			b.ReportMetric(float64(told.Milliseconds())/float64(b.N), "ms-told")
			b.ReportMetric(used/(1<<20), "heap-MB")
		})
	}
}
