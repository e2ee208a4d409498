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

// Addresses provides the networks of the cluster, and the addresses of local pods.
type Addresses interface {
	Plan() ipam.Plan
	PodSubnets(n *nodesync.Node) []netip.Prefix
	GetPodIPs(podmanager.PodID) []netip.Addr
}

type self struct {
	name      string
	nodes     Nodes
	addresses Addresses
}

// podSubnets returns none before the node has an ID.
func (s self) podSubnets() []netip.Prefix {
	own := s.nodes.GetAllNodes()[s.name]
	if own == nil {
		return nil
	}
	return s.addresses.PodSubnets(own)
}

func (s self) insidePrefixes() (list []string) {
	for _, p := range s.podSubnets() {
		list = append(list, p.String())
	}
	return list
}

// loopback returns the source address of hairpin connections.
func (s self) loopback(ipv6 bool) netip.Addr {
	for _, p := range s.podSubnets() {
		if p.Addr().Is6() == ipv6 {
			return ipam.NATLoopback(p)
		}
	}
	return netip.Addr{}
}

// host returns the host's address on the interconnect.
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

func hairpinPool(loopback netip.Addr) *vpp_nat.Nat44AddressPool {
	return &vpp_nat.Nat44AddressPool{FirstIp: loopback.String(), VrfId: anyVRF, TwiceNat: true}
}
