package service

import (
	"net/netip"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
)

// Nodes provides the addresses of nodes.
type Nodes interface {
	GetAllNodes() nodesync.Nodes
}

// Addresses provides the networks of the cluster, and the addresses of pods of this node.
type Addresses interface {
	Plan() ipam.Plan
	PodSubnets(n *nodesync.Node) []netip.Prefix
	GetPodIPs(podmanager.PodID) []netip.Addr
}

// self returns this node as the other plugins know it.
type self struct {
	name      string
	nodes     Nodes
	addresses Addresses
}

// podSubnets returns the pod subnets of this node; none before it has an ID.
func (s self) podSubnets() []netip.Prefix {
	own := s.nodes.GetAllNodes()[s.name]
	if own == nil {
		return nil
	}
	return s.addresses.PodSubnets(own)
}

// insidePrefixes returns the pod subnets in the form of a ServiceNetwork.
func (s self) insidePrefixes() (list []string) {
	for _, p := range s.podSubnets() {
		list = append(list, p.String())
	}
	return list
}

// loopback returns the source that pods see in connections to themselves.
func (s self) loopback(ipv6 bool) netip.Addr {
	for _, p := range s.podSubnets() {
		if p.Addr().Is6() == ipv6 {
			return ipam.NATLoopback(p)
		}
	}
	return netip.Addr{}
}

// host returns the address of the host on its connection to a vswitch with a stack of its own.
func (s self) host(ipv6 bool) netip.Addr {
	own := s.nodes.GetAllNodes()[s.name]
	if own == nil {
		return netip.Addr{}
	}
	plan := s.addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VPPHost.IsValid() {
			continue
		}
		if _, host, err := family.HostInterconnect(own.ID); err == nil && host.Addr().Is6() == ipv6 {
			return host.Addr()
		}
	}
	return netip.Addr{}
}

// ownAddresses returns the addresses of the node itself, sorted.
func (s self) ownAddresses() (list []netip.Addr) {
	if own := s.nodes.GetAllNodes()[s.name]; own != nil {
		list = slices.Clone(own.MgmtIPs)
		for _, p := range own.VPPIPs {
			list = append(list, p.Addr())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// hairpinPool returns the address pool with the source that pods see in connections to themselves.
func hairpinPool(loopback netip.Addr) *vpp_nat.Nat44AddressPool {
	return &vpp_nat.Nat44AddressPool{FirstIp: loopback.String(), VrfId: anyVRF, TwiceNat: true}
}
