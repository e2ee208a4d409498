package scale

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
)

// machine holds the state that survives a restart of node 1's agent.
type machine struct {
	tb      testing.TB
	cluster *cluster
	vswitch *fake.Node
	linux   *linuxHost
	bolt    string
	// filter replaces the filter of the in-memory vswitch. If it is nil, the agent computes no
	// policies.
	filter vswitch.Filter
}

// judged is an in-memory vswitch with another filter.
type judged struct {
	*fake.VSwitch
	filter vswitch.Filter
}

func (j judged) Filter() vswitch.Filter { return j.filter }

func newMachine(tb testing.TB, c *cluster) *machine {
	m := &machine{tb: tb, cluster: c, linux: newLinuxHost(), bolt: filepath.Join(tb.TempDir(), "bolt.db")}
	m.vswitch = fake.NewNetwork().NewNode(nodeName(1), vswitch.Capabilities{HostStackShared: true}, "eth0")
	m.vswitch.SetDevice("eth0", netip.PrefixFrom(nodeIP(1), 16))
	return m
}

// links is the agent's view of the host's links.
type links struct{}

func (links) HostLinks() ([]contivconf.HostLink, error) {
	return []contivconf.HostLink{{Name: "eth0", MTU: 1500, Up: true, Addresses: []netip.Prefix{netip.PrefixFrom(nodeIP(1), 16)}}}, nil
}

// agent is wired as in cmd/contiv-agent.
type agent struct {
	tb        testing.TB
	scheduler *kvscheduler.Scheduler
	loop      *controller.Controller
	watcher   *dbwatcher.Watcher
	nodes     *nodesync.NodeSync
	pods      *podmanager.PodManager
	cni       *podmanager.Server
	local     *bolt.Store
	vswitch   *fake.VSwitch
	changes   *changes
}

func (m *machine) start() *agent {
	m.tb.Helper()
	a := &agent{tb: m.tb, vswitch: m.vswitch.Open(), changes: &changes{news: make(chan struct{}, 1)}}
	log := slog.New(slog.DiscardHandler)
	var err error
	if a.local, err = bolt.Open(m.bolt, 0); err != nil {
		m.tb.Fatal(err)
	}
	a.scheduler = kvscheduler.New(kvscheduler.Options{Logger: log})
	var vs vswitch.VSwitch = a.vswitch
	if m.filter != nil {
		vs = judged{a.vswitch, m.filter}
	}
	if err := descriptors.Register(a.scheduler, vs); err != nil {
		m.tb.Fatal(err)
	}
	if err := m.linux.register(a.scheduler); err != nil {
		m.tb.Fatal(err)
	}
	config, err := contivconf.Load([]byte(contivConf))
	if err != nil {
		m.tb.Fatal(err)
	}
	loopConfig := controller.DefaultConfig()
	a.loop = controller.New(controller.Options{Config: loopConfig, Scheduler: controller.NewScheduler(a.scheduler), Log: log})
	conf, err := contivconf.New(nodeName(1), config, contivconf.Sources{Links: links{}}, a.loop, nil, log)
	if err != nil {
		m.tb.Fatal(err)
	}
	a.nodes = nodesync.New(nodeName(1), m.cluster.db, nodesync.Self{}, a.loop, log)
	namespaces := func(path string) (string, error) { return "id of " + path, nil }
	a.pods = podmanager.New(nodeName(1), a.local, namespaces, "", a.loop, log)
	addresses := ipam.New(conf, a.nodes, a.pods, a.loop, a.pods.Store(), log)
	ipNet := ipnet.New(ipnet.Capabilities{HostStackShared: true, TAPs: true}, conf, a.nodes, a.pods, addresses, a.scheduler, links{}, log)
	services, err := service.New(service.Capabilities{HostStackShared: true}, conf, ipNet, service.Roles{}, log)
	if err != nil {
		m.tb.Fatal(err)
	}
	policies := policy.New(policy.Capabilities{Filter: m.filter != nil}, nodeName(1), a.nodes, a.pods, addresses, ipNet, a.loop, log)
	a.loop.Register(conf, a.nodes, a.pods, addresses, a.pods.Recorder(), ipNet, services, policies, a.changes)
	a.cni = podmanager.NewServer(a.pods, a.loop, podmanager.NodeView{}, log)
	a.loop.Start()
	a.watcher = dbwatcher.Start(dbwatcher.Options{Node: nodeName(1), Remote: m.cluster.db, Local: a.local, Loop: a.loop, Config: loopConfig, Log: log})
	a.barrier()
	if err := a.loop.Ready(); err != nil {
		m.tb.Fatal(err)
	}
	return a
}

func (a *agent) stop() {
	a.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a.cni.Stop(ctx)
	a.watcher.Close()
	if err := a.loop.Close(ctx); err != nil {
		a.tb.Error(err)
	}
	a.scheduler.Close()
	a.vswitch.Close()
	a.local.Close()
}

// barrier waits until the event loop has processed all started events, including the startup
// resync.
func (a *agent) barrier() {
	a.tb.Helper()
	plugintest.Barrier(a.tb, a.loop, 5*time.Minute)
}

// changes is the last handler. It counts the Kubernetes state changes that all handlers have
// processed.
type changes struct {
	seen, resyncs atomic.Int64
	news          chan struct{}
}

func (*changes) String() string { return "test" }
func (*changes) HandlesEvent(event controller.Event) bool {
	switch event.(type) {
	case *controller.KubeStateChange, *controller.DBResync:
		return true
	}
	return false
}
func (c *changes) Resync(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
	c.resyncs.Add(1)
	c.tell()
	return nil
}
func (c *changes) Update(context.Context, controller.Event, controller.UpdateOperations) (string, error) {
	c.seen.Add(1)
	c.tell()
	return "", nil
}
func (c *changes) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}
func (*changes) Revert(context.Context, controller.Event) error { return nil }

// after makes changes in the database and waits until the agent has processed n of them and their
// follow-up events.
func (a *agent) after(n int, change func()) {
	a.tb.Helper()
	a.until(&a.changes.seen, n, change)
}

// resyncDatabase waits until the agent has read the database again.
func (a *agent) resyncDatabase() {
	a.tb.Helper()
	a.until(&a.changes.resyncs, 1, func() {
		if err := a.watcher.RequestResync(); err != nil {
			a.tb.Fatal(err)
		}
	})
}

func (a *agent) until(counter *atomic.Int64, n int, cause func()) {
	a.tb.Helper()
	goal := counter.Load() + int64(n)
	cause()
	timeout := time.After(5 * time.Minute)
	for counter.Load() < goal {
		select {
		case <-a.changes.news:
		case <-timeout:
			a.tb.Fatalf("%d of %d events are missing", goal-counter.Load(), n)
		}
	}
	a.barrier()
}

func request(i int) *cni.CNIRequest {
	return &cni.CNIRequest{
		ContainerId: fmt.Sprintf("%08x%056x", i+1, 0), NetworkNamespace: fmt.Sprintf("/var/run/netns/pod%d", i), InterfaceName: "eth0",
		ExtraArguments: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + podName(1, i),
	}
}

func (a *agent) addPod(i int) *cni.CNIReply {
	a.tb.Helper()
	reply, err := a.cni.Add(context.Background(), request(i))
	if err != nil || reply.GetError() != "" {
		a.tb.Fatalf("ADD: %v %s", err, reply.GetError())
	}
	return reply
}

func (a *agent) deletePod(i int) {
	a.tb.Helper()
	reply, err := a.cni.Delete(context.Background(), request(i))
	if err != nil || reply.GetError() != "" {
		a.tb.Fatalf("DEL: %v %s", err, reply.GetError())
	}
}

// resync runs a downstream resync and returns the number of repair operations.
func (a *agent) resync() int {
	a.tb.Helper()
	seq, err := a.scheduler.NewTransaction().Commit(context.Background(), kvscheduler.WithResync(kvscheduler.DownstreamResync))
	if err != nil {
		a.tb.Fatal(err)
	}
	return executed(a.scheduler.RecordedTxn(seq))
}

func executed(txn *kvscheduler.RecordedTxn) (n int) {
	for _, op := range txn.Executed {
		if !op.NOOP {
			n++
		}
	}
	return n
}
