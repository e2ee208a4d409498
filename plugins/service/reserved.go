package service

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/plugins/service/processor"
)

// External IPs that no service gets.
const (
	limitHost = "external IPs and load balancers' IPs that are addresses of the host's own network cards are not translated on this node: VPP leads all packets for them to the host"
	limitPods = "external IPs and load balancers' IPs of the pod network are ignored: they are addresses of pods"
)

// reserve has the processor leave out what no service gets.
func (s *Service) reserve(n *processor.Node) {
	plan := s.proxy.Addresses.Plan()
	for _, family := range plan.Families() {
		if p := family.Subnets.Pods; p.IsValid() {
			n.PodNetworks = append(n.PodNetworks, p)
		}
	}
	if !s.ownStack() {
		return
	}
	open := s.openAddresses()
	n.Host = slices.DeleteFunc(slices.Clone(n.Addresses), func(a netip.Addr) bool { return slices.Contains(open, a) })
}

// noteReserved records a service that asks for what no service gets.
func (s *Service) noteReserved(id processor.ID) {
	s.noteLimit(id, limitHost, s.services.AsksForHost(id))
	s.noteLimit(id, limitPods, s.services.AsksForPods(id))
}
