package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/node"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

const labelZone = "topology.kubernetes.io/zone"

// inputs records events in the processor:
//
//	Service, EndpointSlice ──────────────> services and their endpoints
//	Node, node addresses, reservations ──> this node
//	Pod of another node ─────────────────> host ports
//	pod addresses in VppNode ────────────> redirects to other interfaces than eth0
type inputs struct {
	node         *localnode.Node
	reservations *localnode.Reservations
	ports        *podports.Ports
	entrances    *Entrances
	services     *processor.Processor
	externalIPs  *ExternalIPs
	log          *slog.Logger

	zone             string          // of this node
	ignoredRedirects map[string]bool // texts that are logged
}

// changedBy reports whether an event changes inputs of the processor.
func (i *inputs) changedBy(event controller.Event) bool {
	switch e := event.(type) {
	case *controller.KubeStateChange:
		return e.Resource == kubestate.Service || e.Resource == kubestate.EndpointSlice || e.Key == kubestate.NodeKey(i.node.Name) || i.ports.ChangedBy(e)
	case *nodesync.NodeUpdate:
		return e.NodeName == i.node.Name || e.AboutPodAddresses() || localnode.ReservationsChangedBy(e)
	}
	return i.node.HostChangedBy(event)
}

// record returns the changed services, and whether the event concerns this node.
func (i *inputs) record(ctx context.Context, event controller.Event) (changed []processor.ID, ofNode bool) {
	switch e := event.(type) {
	case *controller.KubeStateChange:
		switch e.Resource {
		case kubestate.Service:
			return i.serviceChanged(e), false
		case kubestate.EndpointSlice:
			return i.sliceChanged(ctx, e), false
		case kubestate.Pod:
			i.ports.Record(e)
			return i.setPodPorts(podmanager.PodID{}), false
		}
		n, _ := e.NewValue.(*node.Node)
		i.zone = n.GetLabels()[labelZone]
	case *nodesync.NodeUpdate:
		if e.AboutPodAddresses() {
			changed = i.services.SetRedirects(i.redirects(ctx))
		}
		if e.NodeName != i.node.Name {
			if localnode.ReservationsChangedBy(e) {
				changed = i.nodeChanged(ctx, changed)
			}
			return changed, false
		}
	}
	if i.node.HostChangedBy(event) {
		changed = i.services.IDs()
	}
	return i.nodeChanged(ctx, changed), true
}

func (i *inputs) serviceChanged(e *controller.KubeStateChange) []processor.ID {
	if next, ok := e.NewValue.(*k8s.Service); ok && next != nil {
		return i.services.SetService(i.externalIPs.admit(next))
	}
	prev, _ := e.PrevValue.(*k8s.Service)
	i.externalIPs.forget(prev)
	return i.services.RemoveService(prev.GetNamespace(), prev.GetName())
}

func (i *inputs) sliceChanged(ctx context.Context, e *controller.KubeStateChange) []processor.ID {
	prev, _ := e.PrevValue.(*endpointslice.EndpointSlice)
	next, _ := e.NewValue.(*endpointslice.EndpointSlice)
	changed := i.services.SetSlice(prev, next)
	if slices.Contains(changed, localnode.APIServer) { // its addresses are reserved
		changed = union(changed, i.services.SetNode(i.processorNode(ctx)))
	}
	return changed
}

func (i *inputs) nodeChanged(ctx context.Context, changed []processor.ID) []processor.ID {
	changed = append(changed, i.services.SetNode(i.processorNode(ctx))...)
	return union(changed, i.setPodPorts(podmanager.PodID{}))
}

// setPodPorts replaces the host ports of all pods except one of this node. It returns the changed
// services.
func (i *inputs) setPodPorts(except podmanager.PodID) []processor.ID {
	return i.services.SetPodPorts(i.ports.All(except))
}

// union returns the sorted IDs of two lists.
func union(list, more []processor.ID) []processor.ID {
	list = append(list, more...)
	slices.SortFunc(list, processor.ID.Compare)
	return slices.Compact(list)
}

// reset records everything.
func (i *inputs) reset(ctx context.Context, state controller.KubeState) {
	i.services.Reset()
	i.externalIPs.reset()
	n, _ := state[kubestate.Node][kubestate.NodeKey(i.node.Name)].(*node.Node)
	i.zone = n.GetLabels()[labelZone]
	for _, value := range state[kubestate.Service] {
		if svc, ok := value.(*k8s.Service); ok {
			i.services.SetService(i.externalIPs.admit(svc))
		}
	}
	for _, value := range state[kubestate.EndpointSlice] {
		if slice, ok := value.(*endpointslice.EndpointSlice); ok {
			i.services.SetSlice(nil, slice)
		}
	}
	i.services.SetNode(i.processorNode(ctx))
	i.ports.Reset(state)
	i.setPodPorts(podmanager.PodID{})
	i.services.SetRedirects(i.redirects(ctx))
}

// processorNode returns the properties of this node that affect services.
func (i *inputs) processorNode(ctx context.Context) processor.Node {
	n := processor.Node{Name: i.node.Name, Zone: i.zone, PodSubnets: i.node.PodSubnets(), Addresses: i.node.AllAddresses()}
	plan := i.node.Addresses.Plan()
	for _, family := range plan.Families() {
		if p := family.Subnets.Pods; p.IsValid() {
			n.PodNetworks = append(n.PodNetworks, p)
		}
	}
	if i.node.HasOwnStack() {
		i.setHost(&n)
	}
	n.Reserved = i.reservations.Table(ctx)
	if n.NodePorts = i.entrances.NodePortAddresses(); len(n.NodePorts) == 0 && len(n.Addresses) > 0 && !i.entrances.otherProxies.conflict() {
		controller.Logger(ctx, i.log).Warn("Node ports are open on no address: nodePortAddresses has none of this node's", "addresses", n.Addresses)
	}
	return n
}

// setHost sets the addresses of the host next to a vswitch with its own stack.
func (i *inputs) setHost(n *processor.Node) {
	open := i.node.OpenAddresses()
	n.Host = slices.DeleteFunc(slices.Clone(n.Addresses), func(a netip.Addr) bool { return slices.Contains(open, a) })
	for _, ipv6 := range []bool{false, true} {
		if to := i.entrances.external(ipv6).To; to.IsValid() {
			n.Entrances = append(n.Entrances, to)
			n.ByHost = append(n.ByHost, localnode.OfVersion(n.Host, ipv6)...)
			n.Host = localnode.OfVersion(n.Host, !ipv6)
		}
	}
}

// redirects returns the interfaces, other than eth0, at which services reach pods.
//
// Pods with the annotation contivpp.io/service-endpoint-if serve at another interface than eth0.
// Only the pod's node knows its addresses, but every node renders the service:
//
//	the pod's node ──VppNode.pod_addresses──> etcd ──NodeUpdate──> Redirects ──> services with endpoints on the pod
//
// Addresses outside the publishing node's pod subnets are ignored, so that a node cannot divert
// connections of other nodes' pods. Each ignored address is logged once.
func (i *inputs) redirects(ctx context.Context) processor.Redirects {
	all := processor.Redirects{}
	ignored := map[string]bool{}
	for _, n := range i.node.Nodes.GetAllNodes() {
		if len(n.PodAddresses) == 0 {
			continue
		}
		subnets := i.node.Addresses.PodSubnets(n)
		for _, p := range n.PodAddresses {
			for _, text := range all.Add(n.Name, subnets, processor.ID{Namespace: p.Namespace, Name: p.Name}, p.Interface, p.Addresses...) {
				if ignored[text] = true; !i.ignoredRedirects[text] {
					controller.Logger(ctx, i.log).Warn("A node publishes an address for services that does not count", "why", text)
				}
			}
		}
	}
	i.ignoredRedirects = ignored
	return all
}
