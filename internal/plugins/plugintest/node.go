package plugintest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	serviceconfig "github.com/contiv/contiv/internal/plugins/service/config"
	"google.golang.org/protobuf/proto"
)

// Links is a fixed list of host links.
type Links []contivconf.HostLink

// HostLinks returns the list.
func (l Links) HostLinks() ([]contivconf.HostLink, error) { return l, nil }

// Link is a link with an MTU of 1500 that is up.
func Link(name string, addresses ...string) contivconf.HostLink {
	l := contivconf.HostLink{Name: name, MTU: 1500, Up: true}
	for _, a := range addresses {
		l.Addresses = append(l.Addresses, netip.MustParsePrefix(a))
	}
	return l
}

// NodeOptions of a Node. The zero value is a node "node1" on the kernel's network stack, with
// default configuration and an eth0.
type NodeOptions struct {
	Name string
	Caps *ipnet.Capabilities
	// Conf is the content of contiv.conf.
	Conf  string
	Links Links
	// Stolen is the STN daemon's answer; nil without daemon.
	Stolen *contivconf.Stolen
	// Etcd and Local survive restarts of a node.
	Etcd, Local *memory.Store
	// View is the CNI server's view of the node.
	View podmanager.NodeView
	// Disk, if not nil, replaces Local for podmanager.
	Disk       store.Broker
	Scheduler  *Scheduler
	Namespaces podmanager.Namespaces
	MissedDels string // see PodManager.MissedDels
	// Needs lists the ports that no pod gets as a host port.
	Needs service.Needs
	// Translate makes the vswitch translate services.
	Translate bool
	// State at the startup resync.
	State controller.KubeState
	// NoResync leaves the startup resync to the test.
	NoResync bool
}

// Node is an agent without vswitch: all plugins, a real event loop, and a recording scheduler.
type Node struct {
	t          testing.TB
	Options    NodeOptions
	Scheduler  *Scheduler
	Loop       *controller.Controller
	ContivConf *contivconf.ContivConf
	NodeSync   *nodesync.NodeSync
	PodManager *podmanager.PodManager
	IPAM       *ipam.IPAM
	IPNet      *ipnet.IPNet
	Server     *podmanager.Server
	// visits receives each change of the Kubernetes state that reaches the handlers.
	visits visits
}

// Kernel and VPP hold the capabilities of the vswitches.
var (
	Kernel = ipnet.Capabilities{HostStackShared: true, TAPs: true, SourceGuards: true, ConnectionLimits: true}
	VPP    = ipnet.Capabilities{MultipleVRFs: true, TAPs: true, SourceGuards: true}
	// VPPWithoutTAPs is VPP on a machine without vhost-net.
	VPPWithoutTAPs = ipnet.Capabilities{MultipleVRFs: true, SourceGuards: true}
)

// Timeout bounds each wait of a test.
const Timeout = 10 * time.Second

// StartNode runs a node until the end of the test or Stop.
func StartNode(t testing.TB, o NodeOptions) *Node {
	t.Helper()
	setDefaults(&o)
	config, err := contivconf.Load([]byte(o.Conf))
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{t: t, Options: o, Scheduler: o.Scheduler, visits: make(visits, 1)}
	loopConfig := controller.DefaultConfig()
	loopConfig.EnableRetry = false
	n.Loop = controller.New(controller.Options{Config: loopConfig, Scheduler: n.Scheduler, Log: Logger()})
	var links contivconf.HostLinks
	if o.Caps.HostStackShared {
		links = o.Links
	}
	if n.ContivConf, err = contivconf.New(o.Name, config, contivconf.Sources{Links: links, STN: o.steal()}, n.Loop, o.Local, Logger()); err != nil {
		t.Fatal(err)
	}
	ownStack := !o.Caps.HostStackShared
	n.NodeSync = nodesync.New(o.Name, o.Etcd, nodesync.Self{OwnStack: &ownStack}, n.Loop, Logger())
	n.PodManager = podmanager.New(o.Name, o.Disk, o.Namespaces, o.MissedDels, n.Loop, Logger())
	n.IPAM = ipam.New(n.ContivConf, n.NodeSync, n.PodManager, n.Loop, n.PodManager.Store(), Logger())
	n.IPNet = ipnet.New(*o.Caps, n.ContivConf, n.NodeSync, n.PodManager, n.IPAM, n.Scheduler, o.Links, Logger())
	roles := service.Roles{
		HostPorts: &service.HostPorts{NodeName: o.Name, Nodes: n.NodeSync, Addresses: n.IPAM, Pods: n.PodManager, Verifier: n.Scheduler},
		Needs:     o.Needs,
	}
	if o.Translate {
		roles.Proxy = &service.Proxy{Settings: serviceconfig.Default(), NodeName: o.Name, Nodes: n.NodeSync, Addresses: n.IPAM,
			OtherProxy: func() (string, error) { return "", nil }}
	}
	services, err := service.New(service.Capabilities{HostStackShared: o.Caps.HostStackShared, ClientScopes: o.Caps.HostStackShared, ResetsConnections: true}, n.ContivConf, n.IPNet, roles, Logger())
	if err != nil {
		t.Fatal(err)
	}
	policies := policy.New(policy.Capabilities{Filter: true}, o.Name, n.NodeSync, n.PodManager, n.IPAM, n.IPNet, n.Loop, Logger())
	n.Loop.Register(n.ContivConf, n.NodeSync, n.PodManager, n.IPAM, n.PodManager.Recorder(), n.IPNet, services, policies, n.visits)
	n.Loop.Start()
	n.Server = podmanager.NewServer(n.PodManager, n.Loop, o.View, Logger())
	t.Cleanup(n.Stop)
	if !o.NoResync {
		n.Resync()
	}
	return n
}

func (o *NodeOptions) steal() func(string, bool) (*contivconf.Stolen, error) {
	if o.Stolen == nil {
		return nil
	}
	return func(string, bool) (*contivconf.Stolen, error) { return o.Stolen, nil }
}

func setDefaults(o *NodeOptions) {
	if o.Name == "" {
		o.Name = "node1"
	}
	if o.Caps == nil {
		o.Caps = &Kernel
	}
	if o.Links == nil {
		o.Links = Links{Link("lo", "127.0.0.1/8"), Link("eth0", "192.168.16.1/24")}
	}
	if o.Etcd == nil {
		o.Etcd = memory.New()
	}
	if o.Local == nil {
		o.Local = memory.New()
	}
	if o.Disk == nil {
		o.Disk = o.Local
	}
	if o.Scheduler == nil {
		o.Scheduler = &Scheduler{}
	}
	if o.Namespaces == nil {
		o.Namespaces = func(path string) (string, error) { return "id of " + path, nil }
	}
	if o.State == nil {
		o.State = State()
	}
}

// Stop ends the agent; its stores and its scheduler remain.
func (n *Node) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	n.Server.Stop(ctx)
	if err := n.Loop.Close(ctx); err != nil {
		n.t.Errorf("close the event loop: %v", err)
	}
}

// Restart stops the agent and starts another one with its stores and scheduler.
func (n *Node) Restart() *Node {
	n.t.Helper()
	n.Stop()
	o := n.Options
	o.Scheduler, o.NoResync = n.Scheduler, false
	return StartNode(n.t, o)
}

// Resync processes a DBResync with the state of the options.
func (n *Node) Resync() {
	n.t.Helper()
	if err := n.Loop.PushEvent(context.Background(), &controller.DBResync{State: n.Options.State}); err != nil {
		n.t.Fatal(err)
	}
	n.Barrier()
}

// Change processes the change of a Kubernetes value; prev or next may be nil.
func (n *Node) Change(prev, next proto.Message) {
	n.t.Helper()
	change := &controller.KubeStateChange{PrevValue: prev, NewValue: next}
	value := next
	if value == nil {
		value = prev
	}
	change.Resource, change.Key = locate(value)
	if err := n.Loop.PushEvent(context.Background(), change); err != nil {
		n.t.Fatal(err)
	}
	// Until it is taken, other events such as the barrier may overtake it.
	select {
	case <-n.visits:
	case <-time.After(Timeout):
		n.t.Fatalf("not processed within %v: %v", Timeout, change)
	}
	n.Barrier()
}

type visits chan struct{}

func (visits) String() string { return "test" }
func (visits) HandlesEvent(event controller.Event) bool {
	_, ok := event.(*controller.KubeStateChange)
	return ok
}
func (visits) Resync(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
	return nil
}
func (v visits) Update(context.Context, controller.Event, controller.UpdateOperations) (string, error) {
	v <- struct{}{}
	return "", nil
}
func (visits) Revert(context.Context, controller.Event) error { return nil }

// Barrier waits until all earlier events and their follow-ups were processed.
func (n *Node) Barrier() {
	n.t.Helper()
	Barrier(n.t, n.Loop, Timeout)
}

// Barrier waits until the loop has processed all earlier events, at most timeout.
func Barrier(t testing.TB, loop *controller.Controller, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	b := &barrier{Blocking: controller.NewBlocking()}
	if err := loop.PushEvent(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

type barrier struct{ controller.Blocking }

func (*barrier) Name() string                                { return "Barrier" }
func (*barrier) String() string                              { return "Barrier" }
func (*barrier) Method() controller.EventMethod              { return controller.Update }
func (*barrier) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*barrier) Direction() controller.Direction             { return controller.Forward }

// State builds the reflected Kubernetes state from pods, nodes, NodeConfigs, ServiceCIDRs and
// VppNodes.
func State(messages ...proto.Message) controller.KubeState {
	state := controller.KubeState{"pod": {}, "node": {}, "vppnode": {}, "namespace": {}, "nodeconfig": {}, kubestate.ServiceCIDR: {}}
	for _, m := range messages {
		resource, key := locate(m)
		state[resource][key] = m
	}
	return state
}

func locate(m proto.Message) (resource, key string) {
	switch m := m.(type) {
	case *pod.Pod:
		return "pod", "k8s/pod/" + m.GetName() + "/namespace/" + m.GetNamespace()
	case *node.Node:
		return "node", "k8s/node/" + m.GetName()
	case *nodeconfig.NodeConfig:
		return "nodeconfig", "k8s/nodeconfig/" + m.GetNodeName()
	case *servicecidr.ServiceCIDR:
		return kubestate.ServiceCIDR, kubestate.ServiceCIDRKey(m.GetName())
	case *vppnode.VppNode:
		return "vppnode", kubestate.VppNodeKey(m.GetId())
	}
	panic("not a value of the reflected state: " + proto.MessageName(m))
}
