package policy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/models"
)

// Capabilities of the vswitch that affect the configuration.
type Capabilities struct {
	// Filter is set if the vswitch can filter connections.
	Filter bool
}

// Pods provides the pods that are wired on this node.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool)
}

// IPAM provides the addresses of local pods, and the pod subnets of all nodes.
type IPAM interface {
	GetPodIPs(id podmanager.PodID) []netip.Addr
	PodSubnets(n *nodesync.Node) []netip.Prefix
}

// Nodes provides all nodes and the pod addresses that they publish.
type Nodes interface {
	GetAllNodes() nodesync.Nodes
}

// Network provides the interfaces of local pods, and the networks from which they see the node if
// the vswitch does not know them.
type Network interface {
	GetPodIfNames(id podmanager.PodID) (vpp, linux, loopback string, exists bool)
	// GetPodCustomIfs returns the additional interfaces of a pod and their addresses.
	GetPodCustomIfs(id podmanager.PodID) (interfaces []string, addrs []netip.Addr)
	OwnNetworks() ([]netip.Prefix, error)
	// NodeAddresses includes addresses unknown to Kubernetes.
	NodeAddresses(n *nodesync.Node) []netip.Addr
}

// Policy is the network policy plugin.
type Policy struct {
	caps    Capabilities
	node    string
	nodes   Nodes
	pods    Pods
	ipam    IPAM
	network Network
	loop    controller.EventLoop
	log     *slog.Logger

	metrics *metrics
	real    *realisation

	// mu guards the following fields. The lock of real is taken before mu.
	mu        sync.Mutex
	resynced  bool
	processor *processor.Processor
	// garbage contains the keys of values that are unreferenced after the current event.
	garbage map[string]struct{}
}

// New returns the plugin of a node.
func New(caps Capabilities, node string, nodes Nodes, pods Pods, ipam IPAM, network Network, loop controller.EventLoop, log *slog.Logger) *Policy {
	return &Policy{caps: caps, node: node, nodes: nodes, pods: pods, ipam: ipam, network: network, loop: loop, log: log,
		metrics: newMetrics(node), real: newRealisation(), processor: processor.New(node), garbage: map[string]struct{}{}}
}

func (p *Policy) enforces() bool { return p.caps.Filter }

func (*Policy) String() string { return "policy" }

// HandlesEvent accepts resyncs, wired pods, node updates, and Kubernetes changes that affect
// policies.
func (p *Policy) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod, *podmanager.PodCustomIfUpdate, *nodesync.NodeUpdate, *cleanup:
		return p.caps.Filter
	case *controller.KubeStateChange:
		switch event.Resource {
		case kubestate.Pod, kubestate.Namespace, kubestate.Node, kubestate.Policy, kubestate.ClusterPolicy:
			return p.caps.Filter
		}
	}
	return event.Method() != controller.Update
}

// Resync recomputes all values.
func (p *Policy) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, txn controller.ResyncOperations) error {
	if !p.caps.Filter {
		if n := len(state[kubestate.Policy]) + len(state[kubestate.ClusterPolicy]); n > 0 {
			controller.Logger(ctx, p.log).Warn("Network policies NOT enforced: not supported by the vswitch", "policies", n)
		}
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.processor, p.garbage = processor.New(p.node), map[string]struct{}{}
	own, err := p.network.OwnNetworks()
	if err != nil {
		return fmt.Errorf("networks of the node: %w", err)
	}
	p.processor.SetOwnNetworks(own)
	for _, resource := range []string{kubestate.Namespace, kubestate.Node, kubestate.Pod, kubestate.Policy, kubestate.ClusterPolicy} {
		for _, value := range state[resource] {
			p.set(value)
		}
	}
	for name := range p.nodes.GetAllNodes() {
		p.setAssigned(name)
	}
	p.processor.SetPublished(p.published())
	for id := range p.pods.LocalPods() {
		p.setLocal(id)
	}
	for _, value := range p.processor.All() {
		txn.Put(models.Key(value), value)
	}
	p.resynced = true
	return nil
}

func (p *Policy) set(value any) {
	switch v := value.(type) {
	case *pod.Pod:
		p.processor.SetPod(v)
	case *namespace.Namespace:
		p.processor.SetNamespace(v)
	case *policy.Policy:
		p.processor.SetPolicy(v)
	case *policy.ClusterPolicy:
		p.processor.SetClusterPolicy(v)
	case *node.Node:
		p.processor.SetNode(v)
		p.setAssigned(v.GetName()) // Kubernetes may choose the pod subnet
	}
}

func (p *Policy) remove(value any) {
	switch v := value.(type) {
	case *pod.Pod:
		p.processor.DeletePod(podmanager.IDOf(v))
	case *namespace.Namespace:
		p.processor.DeleteNamespace(v.GetName())
	case *policy.Policy:
		p.processor.DeletePolicy(processor.PolicyID{Namespace: v.GetNamespace(), Name: v.GetName()})
	case *policy.ClusterPolicy:
		p.processor.DeletePolicy(processor.PolicyID{Name: v.GetName()})
	case *node.Node:
		p.processor.DeleteNode(v.GetName())
	}
}

func (p *Policy) setLocal(id podmanager.PodID) {
	addrs := p.ipam.GetPodIPs(id)
	iface, _, _, _ := p.network.GetPodIfNames(id)
	more, further := p.network.GetPodCustomIfs(id)
	local, _ := p.pods.LocalPod(id)
	uid := ""
	if local != nil {
		uid = local.UID
	}
	p.processor.SetLocal(id, processor.Local{UID: uid, Addresses: append(slices.Clip(addrs), further...), Interface: iface, MoreInterfaces: more})
}

func (p *Policy) setAssigned(name string) {
	var addrs []netip.Addr
	if node := p.nodes.GetAllNodes()[name]; node != nil {
		addrs = p.network.NodeAddresses(node)
	}
	p.processor.SetAssigned(name, addrs)
}

// published returns the pod addresses that nodes publish for services. Addresses outside the
// publishing node's pod subnets are ignored: a node must not turn other addresses into peers.
func (p *Policy) published() map[podmanager.PodID][]processor.Published {
	all := map[podmanager.PodID][]processor.Published{}
	for _, node := range p.nodes.GetAllNodes() {
		if len(node.PodAddresses) == 0 {
			continue
		}
		subnets := p.ipam.PodSubnets(node)
		for _, pod := range node.PodAddresses {
			id := podmanager.PodID{Namespace: pod.Namespace, Name: pod.Name}
			for _, addr := range pod.Addresses {
				if at := slices.IndexFunc(subnets, func(s netip.Prefix) bool { return s.Contains(addr) }); at >= 0 {
					all[id] = append(all[id], processor.Published{Addr: addr, Subnet: subnets[at]})
				}
			}
		}
	}
	return all
}

// Update computes the changes of an event.
func (p *Policy) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	if id, _, about := policyOf(event); about {
		p.real.mu.Lock()
		p.real.asked[id] = struct{}{}
		p.real.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event := event.(type) {
	case *cleanup:
		return p.clean(txn), nil
	case *podmanager.AddPod:
		p.setLocal(event.Pod)
	case *podmanager.PodCustomIfUpdate:
		if _, wired := p.pods.LocalPod(event.Pod); !wired {
			return "", nil
		}
		p.setLocal(event.Pod)
	case *podmanager.DeletePod:
		if local, wired := p.pods.LocalPod(event.Pod); !wired || local.ContainerID != event.ContainerID {
			return "", nil
		}
		p.processor.DeleteLocal(event.Pod)
	case *nodesync.NodeUpdate:
		p.setAssigned(event.NodeName)
		if event.AboutPodAddresses() {
			p.processor.SetPublished(p.published())
		}
	case *controller.KubeStateChange:
		if event.NewValue != nil {
			p.set(event.NewValue)
		} else {
			p.remove(event.PrevValue)
		}
		return "", nil // see EndBulk
	}
	return p.apply(ctx, txn)
}

// EndBulk applies a batch of changes at once, so that each affected pod changes once.
func (p *Policy) EndBulk(_ context.Context, txn controller.UpdateOperations) (string, error) {
	if !p.caps.Filter {
		return "", nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	change, gone := p.put(txn)
	for _, key := range gone {
		txn.Delete(key) // safe here: the vswitch applies a transaction atomically
	}
	return change, nil
}

// apply schedules the removal of unreferenced values.
func (p *Policy) apply(ctx context.Context, txn controller.UpdateOperations) (string, error) {
	change, gone := p.put(txn)
	for _, key := range gone {
		p.garbage[key] = struct{}{}
	}
	if len(gone) > 0 {
		if err := p.loop.PushEvent(ctx, &cleanup{}); err != nil {
			return "", fmt.Errorf("remove unused policy objects: %w", err)
		}
	}
	return change, nil
}

// put returns the keys of unreferenced values.
func (p *Policy) put(txn controller.UpdateOperations) (change string, gone []string) {
	values, gone := p.processor.Changes()
	for _, value := range values {
		key := models.Key(value)
		txn.Put(key, value)
		delete(p.garbage, key)
	}
	if len(values)+len(gone) > 0 {
		change = fmt.Sprintf("refresh policies: %d values", len(values)+len(gone))
	}
	return change, gone
}

func (p *Policy) clean(txn controller.UpdateOperations) string {
	if len(p.garbage) == 0 {
		return ""
	}
	n := len(p.garbage)
	for key := range p.garbage {
		txn.Delete(key)
	}
	clear(p.garbage)
	return fmt.Sprintf("remove %d unused policy values", n)
}

// Revert forgets the pod of a failed AddPod. The next event applies the other changes again.
func (p *Policy) Revert(_ context.Context, event controller.Event) error {
	if add, ok := event.(*podmanager.AddPod); ok && !add.WasWired() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.processor.DeleteLocal(add.Pod)
	}
	return nil
}

// cleanup removes the values that an earlier event left unreferenced.
type cleanup struct{ controller.NonBlocking }

func (*cleanup) Name() string                                { return "Policy Cleanup" }
func (*cleanup) String() string                              { return "Policy Cleanup" }
func (*cleanup) Method() controller.EventMethod              { return controller.Update }
func (*cleanup) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*cleanup) Direction() controller.Direction             { return controller.Forward }
