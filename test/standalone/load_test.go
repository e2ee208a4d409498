package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// loadValues returns the number of values put by clients. With -short, benchmarks only show that
// they work.
func loadValues() int {
	if testing.Short() {
		return 200
	}
	return 10000
}

// loadClients is the number of concurrent calls that the server permits to a process.
const loadClients = 32

// agent is an agent on the fake vswitch.
type agent struct {
	scheduler *kvscheduler.Scheduler
	client    rpc.DataChangeServiceClient
	// address serves gRPC.
	address string
}

// newAgent starts an agent, optionally with an etcd.
func newAgent(b *testing.B, remote *etcdtest.Server) *agent {
	b.Helper()
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	dir := b.TempDir()
	file, err := bolt.Open(filepath.Join(dir, "grpc.db"), 0)
	ok(err)
	source, err := contivgrpc.NewSource(context.Background(), file, log)
	ok(err)
	scheduler := kvscheduler.New(kvscheduler.Options{Logger: log})
	vs := fake.NewNetwork().NewNode("node", vswitch.Capabilities{HostStackShared: true}).Open()
	ok(descriptors.Register(scheduler, vs))
	var publisher *feedback.Publisher // nil: no etcd
	var observer controller.ExternalObserver
	if remote != nil {
		publisher = feedback.Start(feedback.Options{Node: loadNode, Store: remote.Store(), Scheduler: scheduler, Config: controller.DefaultConfig(), Log: log})
		observer = publisher.GivenOutside
	}
	loop := controller.New(controller.Options{
		Config: controller.DefaultConfig(), Scheduler: controller.NewScheduler(scheduler),
		Sources: []controller.ExternalConfigSource{source}, Observer: observer, Log: log,
	})
	server := northbound.NewServer(listener.Options{AllowUnauthenticated: true}.Client, nil, log)
	service := contivgrpc.NewService(source, loop, scheduler, log)
	service.Register(server)
	northbound.NewLigato(northbound.Options{
		Clients: service, Items: source.Items, External: loop.ExternalValues, Scheduler: scheduler, Log: log,
	}).Register(server)
	northbound.NewStatusService(scheduler, b.Context().Done()).Register(server)
	l, err := listener.Unix(filepath.Join(dir, "grpc.sock"))
	ok(err)
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	stopWatching := func() {}
	if remote == nil {
		loop.Start()
		ok(loop.PushEvent(context.Background(), &controller.DBResync{}))
	} else {
		mirror, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0)
		ok(err)
		db := remote.Store()
		loop.Start()
		watcher := dbwatcher.Start(dbwatcher.Options{
			Node: loadNode, Remote: db, Local: mirror, Loop: loop, Standalone: true, Feedback: publisher, Config: controller.DefaultConfig(), Log: log,
		})
		stopWatching = func() {
			watcher.Close()
			publisher.Close()
			mirror.Close()
		}
	}
	address := "unix://" + l.Addr().String()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	ok(err)
	b.Cleanup(func() {
		conn.Close()
		stopWatching()
		server.Server.Stop()
		serving.Wait()
		loop.Close(context.Background())
		source.Close()
		scheduler.Close()
		vs.Close()
		file.Close()
	})
	return &agent{scheduler, rpc.NewDataChangeServiceClient(conn), address}
}

func loadValue(i int) *vpp_interfaces.Interface {
	return loopback(fmt.Sprintf("loop%d", i), fmt.Sprintf("10.%d.%d.1/24", i/250, i%250))
}

// BenchmarkPut puts 10,000 interfaces with an address each. It measures the time until all calls
// have returned, the time until all values are settled, and the memory in use then.
func BenchmarkPut(b *testing.B) {
	for _, load := range []struct{ clients, perRequest int }{{1, loadValues()}, {1, 100}, {1, 1}, {loadClients, 1}, {loadClients, 100}} {
		b.Run(fmt.Sprintf("clients=%d/values-per-request=%d", load.clients, load.perRequest), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				a := newAgent(b, nil)
				before := heap()
				b.StartTimer()
				start := time.Now()
				a.put(b, load.clients, load.perRequest)
				returned := time.Since(start)
				a.settle(b)
				settled := time.Since(start)
				b.StopTimer()
				b.ReportMetric(float64(loadValues())/returned.Seconds(), "values/s")
				b.ReportMetric(float64(settled.Milliseconds()), "settled-ms")
				b.ReportMetric(float64(heap()-before)/float64(loadValues()), "B/value")
				b.StartTimer()
			}
		})
	}
}

// put puts all values, shared between the clients.
func (a *agent) put(b *testing.B, clients, perRequest int) {
	b.Helper()
	next := make(chan *rpc.DataRequest)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for r := range next {
				r.Client = fmt.Sprintf("client-%d", c)
				if _, err := a.client.Put(b.Context(), r); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := 0; i < loadValues(); i += perRequest {
		r := &rpc.DataRequest{}
		for j := i; j < min(i+perRequest, loadValues()); j++ {
			r.Interfaces = append(r.Interfaces, loadValue(j))
		}
		next <- r
	}
	close(next)
	group.Wait()
}

// BenchmarkClient puts 10,000 values through the Go client. It measures the time until all
// transactions are handed over, the time until the client knows that all values are settled, and
// the memory in use then by agent and client, and with etcd also by etcd.
func BenchmarkClient(b *testing.B) {
	for _, via := range []string{"grpc", "etcd"} {
		for _, each := range []int{1, 100} {
			b.Run(fmt.Sprintf("via=%s/values-per-transaction=%d", via, each), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					c, before := newClient(b, via), heap()
					b.StartTimer()
					start := time.Now()
					keys := putThrough(b, c, each)
					returned := time.Since(start)
					statuses, err := c.Wait(b.Context(), keys...)
					settled := time.Since(start)
					b.StopTimer()
					if err != nil || len(statuses) != loadValues() || slices.ContainsFunc(statuses, client.Failed) {
						b.Fatalf("%d statuses, %v", len(statuses), err)
					}
					b.ReportMetric(float64(loadValues())/returned.Seconds(), "values/s")
					b.ReportMetric(float64(settled.Milliseconds()), "settled-ms")
					b.ReportMetric(float64(heap()-before)/float64(loadValues()), "B/value")
					b.StartTimer()
				}
			})
		}
	}
}

const loadNode = "alone"

// newClient returns a client of a new agent.
func newClient(b *testing.B, via string) (c *client.Client) {
	b.Helper()
	var err error
	if via == "grpc" {
		c, err = client.DialGRPC(newAgent(b, nil).address, client.GRPC{Name: "load"})
	} else {
		server := etcdtest.Start(b)
		newAgent(b, server)
		c, err = client.NewEtcd(loadNode, etcd.Config{Endpoints: []string{server.Endpoint()}})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// putThrough puts all values, a number per transaction, and returns their keys. Over etcd, it does
// not wait for the agent between transactions.
func putThrough(b *testing.B, c *client.Client, each int) (keys []string) {
	b.Helper()
	for i := 0; i < loadValues(); i += each {
		txn := c.Txn().Async()
		for j := i; j < min(i+each, loadValues()); j++ {
			txn.Put(loadValue(j))
		}
		result, err := txn.Commit(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, result.Keys...)
	}
	return keys
}

func (a *agent) settle(b *testing.B) {
	b.Helper()
	keys := make([]string, loadValues())
	for i := range keys {
		keys[i] = models.Key(loadValue(i))
	}
	statuses, err := a.scheduler.WaitSettled(b.Context(), keys...)
	if err != nil || len(statuses) != loadValues() {
		b.Fatalf("%d statuses, %v", len(statuses), err)
	}
	for _, st := range statuses {
		if state := st.GetValue().GetState(); state.String() != "CONFIGURED" {
			b.Fatalf("%s is %v", st.GetValue().GetKey(), state)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
