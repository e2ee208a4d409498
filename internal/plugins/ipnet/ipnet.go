package ipnet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Capabilities of the vswitch that affect the configuration.
type Capabilities struct {
	// HostStackShared: the vswitch is the host's network stack, so that no interconnect is needed.
	HostStackShared bool
	// MultipleVRFs: pods have their own VRF.
	MultipleVRFs bool
	// TAPs: the vswitch supports TAPs. Otherwise VETH pairs connect pods and the host.
	TAPs bool
	// SourceGuards: the vswitch checks the source addresses of pods.
	SourceGuards bool
	// ConnectionLimits: the vswitch limits the connections of pods.
	ConnectionLimits bool
}

// Config is the part of the configuration that IPNet needs.
type Config interface {
	NodeName() string
	Resolved() contivconf.Resolved
	Interfaces() contivconf.InterfaceConfig
	AllowedSources() []netip.Prefix
	Routing() contivconf.RoutingConfig
	IPNeighborScan() contivconf.IPNeighborScanConfig
	EffectiveIPAMConfig() contivconf.IPAMConfig
	PodMTU(nodeIP netip.Addr) uint32
}

// Nodes looks up nodes.
type Nodes interface {
	GetNodeID() uint32
	GetAllNodes() nodesync.Nodes
	PublishNodeIPs(ctx context.Context, addresses []netip.Prefix, ipv6 bool) error
	PublishPodAddresses(ctx context.Context, list []nodesync.PodAddresses) error
}

// Pods looks up pods.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
	// PodOf returns the Kubernetes pod of a sandbox.
	PodOf(*podmanager.LocalPod) (*podmanager.Pod, bool)
	// IsFormer reports whether another pod has taken the name of the sandbox's pod.
	IsFormer(*podmanager.LocalPod) bool
}

// IPAM looks up and assigns addresses.
type IPAM interface {
	Plan() ipam.Plan
	PodSubnet(family *ipam.Plan, node *nodesync.Node) (netip.Prefix, error)
	// GetPodIPs returns one address of each IP version of the pods.
	GetPodIPs(podmanager.PodID) []netip.Addr
	AllocatePodCustomIfIP(ctx context.Context, id podmanager.PodID, iface, network string) ([]netip.Addr, error)
	GetPodCustomIfIPs(id podmanager.PodID, iface, network string) []netip.Addr
	ReleaseOtherPodCustomIfIPs(ctx context.Context, id podmanager.PodID, keep func(iface, network string) bool) error
	Usage() (used, capacity uint64)
}

// Verifier compares the southbound with the desired state.
type Verifier interface {
	Verify(ctx context.Context, keys ...string) ([]kvscheduler.Difference, error)
}

// IPNet is the plugin.
type IPNet struct {
	caps     Capabilities
	config   Config
	nodes    Nodes
	pods     Pods
	ipam     IPAM
	verifier Verifier
	links    contivconf.HostLinks
	log      *slog.Logger

	mu   sync.RWMutex
	node *thisNode // nil before the first resync
	// routedIPs are the host's addresses with routes in a vswitch with its own network stack.
	routedIPs []netip.Addr
	stnKeys   []string

	// serviceAddrs holds the service addresses on pods' loopbacks.
	serviceAddrs   map[podmanager.PodID][]netip.Addr
	customProblems map[podmanager.PodID]map[string]string
}

// New returns the plugin. links may be nil if the vswitch shares the host's stack.
func New(caps Capabilities, config Config, nodes Nodes, pods Pods, ipam IPAM, verifier Verifier, links contivconf.HostLinks, log *slog.Logger) *IPNet {
	return &IPNet{caps: caps, config: config, nodes: nodes, pods: pods, ipam: ipam, verifier: verifier, links: links, log: log,
		serviceAddrs: map[podmanager.PodID][]netip.Addr{}, customProblems: map[podmanager.PodID]map[string]string{}}
}

// GetNodeIPOf returns this node's address of an IP version, or the zero Prefix.
func (n *IPNet) GetNodeIPOf(ipv6 bool) netip.Prefix {
	if node := n.thisNode(); node != nil {
		return node.ipOf(ipv6)
	}
	return netip.Prefix{}
}

// GetPodMTU returns the MTU of this node's pods, or 0 before the node has an address.
func (n *IPNet) GetPodMTU() uint32 {
	if node := n.thisNode(); node != nil && node.ip().IsValid() {
		return node.podMTU
	}
	return 0
}

// GetMainInterface returns the logical name of the interface with the node's address.
func (n *IPNet) GetMainInterface() string {
	if node := n.thisNode(); node != nil {
		return node.mainInterface
	}
	return ""
}

// GetVxlanBVIIfName returns the pods' interface to other nodes, or "".
func (n *IPNet) GetVxlanBVIIfName() string {
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		return vxlanBVIName
	}
	return ""
}

// GetHostInterconnectIfName returns the interface to the host's network stack, or "" if it is
// shared.
func (n *IPNet) GetHostInterconnectIfName() string {
	if n.caps.HostStackShared {
		return ""
	}
	return n.hostAttachment().vpp
}

// GetPodIfNames returns the logical names of a wired pod's interfaces.
func (n *IPNet) GetPodIfNames(id podmanager.PodID) (vpp, linux, loopback string, exists bool) {
	pod, wired := n.pods.LocalPod(id)
	if !wired {
		return "", "", "", false
	}
	a := n.podAttachment(pod.ContainerID)
	return a.vpp, a.linux, podLoopbackName(pod.ContainerID), true
}

// OwnNetworks returns the source networks of the node itself as seen by its pods, if the vswitch
// has its own network stack: both ends of the interconnect, and the pods' gateways. Redirected
// connections use another address, so that policies apply to them. It is empty before the first
// resync.
func (n *IPNet) OwnNetworks() (networks []netip.Prefix, err error) {
	node := n.thisNode()
	if node == nil || n.caps.HostStackShared {
		return nil, nil
	}
	for _, f := range node.families {
		inVPP, inLinux, err := f.plan.HostInterconnect(node.id)
		if err != nil {
			return nil, err
		}
		networks = append(networks, single(inVPP.Addr()), single(inLinux.Addr()), single(f.podGateway.Addr()))
	}
	if node.stolen != nil { // the host uses the node's address
		networks = append(networks, node.stolenIPs()...)
	}
	return networks, nil
}

// PodInterfaces maps the vswitch's logical interface names to this node's pods.
func (n *IPNet) PodInterfaces() map[string]podmanager.PodID {
	owners := make(map[string]podmanager.PodID)
	for id, pod := range n.pods.LocalPods() {
		owners[n.podAttachment(pod.ContainerID).vpp] = id
		for _, i := range n.customIfs(pod) {
			if i.wired() {
				owners[i.vpp] = id
			}
		}
	}
	return owners
}

func (n *IPNet) thisNode() *thisNode {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.node
}

func (*IPNet) String() string { return "ipnet" }

// HandlesEvent accepts resyncs, events and Kubernetes changes of pods, and updates of other nodes.
func (n *IPNet) HandlesEvent(event controller.Event) bool {
	switch event := event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod, *podmanager.CheckPod, *podmanager.PodCustomIfUpdate, *HostAddressesChange:
		return true
	case *nodesync.NodeUpdate:
		return event.NodeName != n.config.NodeName()
	case *controller.KubeStateChange:
		return event.Resource == "pod"
	}
	return event.Method() != controller.Update
}

// Resync computes the whole configuration and publishes the node's addresses.
func (n *IPNet) Resync(ctx context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
	node, err := n.resolve(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.node = node
	n.mu.Unlock()
	if err := n.publish(ctx, node); err != nil {
		return err
	}
	config := make(values)
	n.addNICs(config, node)
	n.addVRFs(config, node)
	n.addPodGateway(config, node)
	n.addTransport(ctx, config, node)
	if !n.caps.HostStackShared {
		if err := n.addHostInterconnect(config, node); err != nil {
			return err
		}
		n.addNeighborScan(config, node)
	}
	for id, pod := range n.pods.LocalPods() {
		n.assignCustom(ctx, pod)
		network, err := n.podNetwork(node, pod)
		if err != nil {
			controller.Logger(ctx, n.log).Error("Connecting a pod failed", "pod", id, "error", err)
			continue
		}
		n.warnOfSources(network, id)
		config.addAll(network.config)
	}
	for key, value := range config {
		txn.Put(key, value)
	}
	return n.publishPodAddresses(ctx, podmanager.PodID{})
}

// publish publishes this node's addresses. Without an address, the published ones stay.
func (n *IPNet) publish(ctx context.Context, node *thisNode) error {
	if len(node.ips) == 0 {
		return nil
	}
	preferred := node.ip().Addr().Is6()
	versions := []bool{preferred}
	if len(node.families) > 1 {
		versions = append(versions, !preferred) // withdraw a previous address, if any
	}
	for _, ipv6 := range versions {
		ofThis := slices.DeleteFunc(slices.Clone(node.ips), func(p netip.Prefix) bool { return p.Addr().Is6() != ipv6 })
		if err := n.nodes.PublishNodeIPs(ctx, ofThis, ipv6); err != nil {
			return err
		}
	}
	return nil
}

// Update computes the change for pods and other nodes.
func (n *IPNet) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	node := n.thisNode()
	if node == nil {
		return "", fmt.Errorf("%s before the first resync", event.Name())
	}
	switch event := event.(type) {
	case *podmanager.AddPod:
		return n.addPod(node, event, txn)
	case *podmanager.DeletePod:
		return n.deletePod(ctx, node, event, txn)
	case *podmanager.PodCustomIfUpdate:
		return n.updateCustom(ctx, node, event, txn)
	case *podmanager.CheckPod:
		return "", n.checkPod(ctx, node, event)
	case *HostAddressesChange:
		return n.updateHostAddresses(node, txn)
	case *nodesync.NodeUpdate:
		n.nodeTakesSources(node, txn)
		return n.updateNode(ctx, node, event, txn), nil
	case *controller.KubeStateChange:
		return n.podChanged(node, event, txn)
	}
	return "", nil
}

// Revert does nothing, because the plugin has no state.
func (*IPNet) Revert(context.Context, controller.Event) error { return nil }

func (n *IPNet) updateNode(ctx context.Context, node *thisNode, event *nodesync.NodeUpdate, txn controller.UpdateOperations) string {
	prev, next := n.connectivity(ctx, node, event.PrevState), n.connectivity(ctx, node, event.NewState)
	for key := range prev {
		if next[key] == nil {
			txn.Delete(key)
		}
	}
	same := maps.EqualFunc(prev, next, proto.Equal)
	shared := make(values)
	n.addTransportBase(shared, node)
	next.addAll(shared)
	for key, value := range next {
		txn.Put(key, value)
	}
	switch {
	case same:
		return ""
	case len(next) == len(shared):
		return fmt.Sprintf("disconnect node %s", event.NodeName)
	case len(prev) == 0:
		return fmt.Sprintf("connect node %s (ID %d)", event.NodeName, event.NewState.ID)
	}
	return fmt.Sprintf("reconnect node %s (ID %d)", event.NodeName, event.NewState.ID)
}
