package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
)

// With external IPAM, Kubernetes assigns the pod subnets of nodes (spec.podCIDR),
// and the IPAM plugin in the CNI configuration the addresses of pods. What stays
// here is to remember them, and to let no two pods have the same.

// PodSubnet returns the pod subnet of a node: the one that Kubernetes assigned, with
// external IPAM, else the one that follows from its ID. family is the plan for
// the IP version.
func (i *IPAM) PodSubnet(family *Plan, n *nodesync.Node) (netip.Prefix, error) {
	if !i.config.ExternalIPAM() || n.PodCIDR == "" {
		return family.PodSubnet(n.ID)
	}
	subnet, err := netip.ParsePrefix(n.PodCIDR)
	if err != nil {
		return subnet, fmt.Errorf("spec.podCIDR of node %s is %q, which is no network", n.Name, n.PodCIDR)
	}
	all := family.Subnets.Pods
	if !all.Contains(subnet.Addr()) || subnet.Bits() < all.Bits() {
		return subnet, fmt.Errorf("spec.podCIDR %v of node %s is outside of ipamConfig.podSubnetCIDR %v: set that to what Kubernetes divides (kube-controller-manager --cluster-cidr)",
			subnet, n.Name, all)
	}
	return subnet.Masked(), nil
}

// errNoExternalIP, errExternalIP: the CNI configuration and ours do not agree.
var (
	errNoExternalIP = errors.New(`ipamConfig.useExternalIPAM is set, but the CNI configuration names no IPAM plugin: add "ipam" to it, or unset the option`)
	errExternalIP   = errors.New(`the address was assigned by the IPAM plugin of the CNI configuration: set ipamConfig.useExternalIPAM, or remove "ipam" from that configuration`)
)

// assign returns the addresses of the pod of an AddPod, persisted.
func (i *IPAM) assign(ctx context.Context, event *podmanager.AddPod) ([]netip.Addr, error) {
	switch external := i.config.ExternalIPAM(); {
	case !external && len(event.ExternalIPs) > 0:
		return nil, errExternalIP
	case !external:
		return i.allocate(ctx, event.Pod)
	case len(event.ExternalIPs) == 0:
		return nil, errNoExternalIP
	}
	for _, addr := range event.ExternalIPs {
		if err := i.learnAddress(event.Pod, addr); err != nil {
			return nil, fmt.Errorf("the IPAM plugin assigned %v: %w", addr, err)
		}
	}
	addrs := i.pools.addresses(event.Pod)
	if err := i.saved.save(ctx, event.Pod, addrs); err != nil {
		i.pools.release(event.Pod)
		return nil, err
	}
	return addrs, nil
}

// PodCIDRChange says that Kubernetes assigned another pod subnet to a node: all
// plugins compute anew. The southbound is assumed to be as last seen.
type PodCIDRChange struct {
	controller.NonBlocking
	Node, Prev, Next string
}

func (*PodCIDRChange) Name() string                   { return "Pod CIDR Change" }
func (*PodCIDRChange) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *PodCIDRChange) String() string {
	return fmt.Sprintf("Pod CIDR Change: node %s\n* before: %s\n* now: %s", e.Node, e.Prev, e.Next)
}

// kubeNodeChanged announces the change of a pod subnet.
func (i *IPAM) kubeNodeChanged(ctx context.Context, change *controller.KubeStateChange) (string, error) {
	prev, _ := change.PrevValue.(*node.Node)
	next, _ := change.NewValue.(*node.Node)
	if !i.config.ExternalIPAM() || next == nil || prev.GetPod_CIDR() == next.GetPod_CIDR() {
		return "", nil
	}
	event := &PodCIDRChange{Node: next.GetName(), Prev: prev.GetPod_CIDR(), Next: next.GetPod_CIDR()}
	if err := i.loop.PushEvent(ctx, event); err != nil {
		return "", fmt.Errorf("announce the pod subnet of node %s: %w", next.GetName(), err)
	}
	return fmt.Sprintf("pod subnet of node %s is %s", next.GetName(), next.GetPod_CIDR()), nil
}
