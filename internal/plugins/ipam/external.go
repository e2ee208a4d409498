package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// With external IPAM, Kubernetes assigns the pod subnets of nodes (spec.podCIDRs), and the IPAM
// plugin in the CNI configuration assigns the addresses of pods. This package then only records the
// addresses and rejects duplicates.

// PodSubnets returns the pod subnets of a node, of all IP versions.
func (i *IPAM) PodSubnets(n *nodesync.Node) (list []netip.Prefix) {
	plan := i.Plan()
	for _, family := range plan.Families() {
		if subnet, err := i.PodSubnet(&family, n); err == nil {
			list = append(list, subnet)
		}
	}
	return list
}

// PodSubnet returns the pod subnet of a node for the IP version of family: with external IPAM the
// one that Kubernetes assigned, otherwise the one derived from the node ID.
func (i *IPAM) PodSubnet(family *Plan, n *nodesync.Node) (netip.Prefix, error) {
	if !i.config.ExternalIPAM() || len(n.PodCIDRs) == 0 {
		return family.PodSubnet(n.ID)
	}
	all := family.Subnets.Pods
	for _, text := range n.PodCIDRs {
		subnet, err := kubeaddr.ParseNetwork(text)
		switch {
		case err != nil:
			return subnet, fmt.Errorf("spec.podCIDRs of node %s has %q, which is not a network", n.Name, text)
		case subnet.Addr().Is6() != all.Addr().Is6():
			continue
		case !all.Contains(subnet.Addr()) || subnet.Bits() < all.Bits():
			return subnet, fmt.Errorf("spec.podCIDR %v of node %s is outside of ipamConfig.podSubnetCIDR %v: set podSubnetCIDR to the cluster CIDR of Kubernetes (kube-controller-manager --cluster-cidr)",
				subnet, n.Name, all)
		}
		return subnet, nil
	}
	return netip.Prefix{}, fmt.Errorf("spec.podCIDRs %s of node %s has no network of the IP version of ipamConfig.podSubnetCIDR %v: set podSubnetCIDR to the cluster CIDR of Kubernetes (kube-controller-manager --cluster-cidr)",
		strings.Join(n.PodCIDRs, ","), n.Name, all)
}

var (
	errNoExternalIP = errors.New(`ipamConfig.useExternalIPAM is set, but the CNI configuration names no IPAM plugin: add "ipam" to it, or unset the option`)
	errExternalIP   = errors.New(`the address was assigned by the IPAM plugin of the CNI configuration: set ipamConfig.useExternalIPAM, or remove "ipam" from that configuration`)
)

func (i *IPAM) assign(ctx context.Context, event *podmanager.AddPod) ([]netip.Addr, error) {
	uid := ""
	if p, wired := i.pods.LocalPod(event.Pod); wired {
		uid = p.UID
	}
	if !i.isOf(event.Pod, uid) { // an earlier pod of that name
		i.release(ctx, event.Pod)
	}
	i.setUID(event.Pod, uid)
	switch external := i.config.ExternalIPAM(); {
	case !external && len(event.ExternalIPs) > 0:
		return nil, errExternalIP
	case !external && i.pools.complete(event.Pod) && !event.WasWired():
		// Learned from Kubernetes, or from an attempt that may have failed to persist.
		return i.pools.addresses(event.Pod), i.save(ctx, event.Pod)
	case !external:
		return i.allocate(ctx, event.Pod)
	case len(event.ExternalIPs) == 0:
		return nil, errNoExternalIP
	}
	known := i.pools.addresses(event.Pod)
	err := i.learnAssigned(event)
	if err == nil {
		err = i.save(ctx, event.Pod)
	}
	if err != nil {
		for _, addr := range i.pools.addresses(event.Pod) {
			if !slices.Contains(known, addr) {
				i.pools.of(addr).release(mainOf(event.Pod))
			}
		}
		return nil, err
	}
	return i.pools.addresses(event.Pod), nil
}

// learnAssigned records all addresses that the IPAM plugin assigned. It requires one of each IP
// version of the pods.
func (i *IPAM) learnAssigned(event *podmanager.AddPod) error {
	for _, addr := range event.ExternalIPs {
		if err := i.pools.learn(mainOf(event.Pod), addr); err != nil {
			return fmt.Errorf("the IPAM plugin assigned %v: %w", addr, err)
		}
	}
	if !i.pools.complete(event.Pod) {
		return fmt.Errorf("the IPAM plugin assigned only %v, but pods need an address of each IP version: configure a range of each, or one pod subnet in ipamConfig.podSubnetCIDR", list(event.ExternalIPs))
	}
	return nil
}

// PodCIDRChange reports that Kubernetes assigned another pod subnet to a node. All plugins
// recompute their values; the southbound is not read.
type PodCIDRChange struct {
	controller.NonBlocking
	Node, Prev, Next string
}

func (*PodCIDRChange) Name() string                   { return "Pod CIDR Change" }
func (*PodCIDRChange) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *PodCIDRChange) String() string {
	return fmt.Sprintf("Pod CIDR Change: node %s\n* before: %s\n* now: %s", e.Node, e.Prev, e.Next)
}

func (i *IPAM) kubeNodeChanged(ctx context.Context, change *controller.KubeStateChange) (string, error) {
	prev, _ := change.PrevValue.(*node.Node)
	next, _ := change.NewValue.(*node.Node)
	before, now := strings.Join(nodesync.PodCIDRs(prev), ","), strings.Join(nodesync.PodCIDRs(next), ",")
	if !i.config.ExternalIPAM() || next == nil || before == now {
		return "", nil
	}
	event := &PodCIDRChange{Node: next.GetName(), Prev: before, Next: now}
	if err := i.loop.PushEvent(ctx, event); err != nil {
		return "", fmt.Errorf("announce the pod subnet of node %s: %w", next.GetName(), err)
	}
	return fmt.Sprintf("pod subnet of node %s is %s", next.GetName(), now), nil
}
