package service

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/plugins/service/processor"
)

const (
	limitHost = "external IPs and load balancers' IPs that are addresses of the host's own network cards are not translated on this node: VPP leads all packets for them to the host"
	// Redirected packets have lost the client's address.
	limitHostRanges = "load balancers' IPs with loadBalancerSourceRanges have no clients that come by network cards of the host: VPP does not see their addresses"
	limitPods       = "cluster IPs, external IPs and load balancers' IPs of the pod network are ignored, for they are addresses of pods; so is 255.255.255.255"
)

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
	for _, ipv6 := range []bool{false, true} {
		if to := s.externalEntrance(ipv6).to; to.IsValid() {
			n.Entrances = append(n.Entrances, to)
			n.ByHost = append(n.ByHost, ofVersion(n.Host, ipv6)...)
			n.Host = ofVersion(n.Host, !ipv6)
		}
	}
}

func (s *Service) noteReserved(id processor.ID) {
	s.noteAddresses(id, limitHost, s.services.AsksForHost(id))
	s.noteAddresses(id, limitPods, s.services.AsksForPods(id))
}

func (s *Service) noteAddresses(id processor.ID, limit string, addresses []netip.Addr) {
	if len(addresses) == 0 {
		return
	}
	var texts []string
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	s.noteLimit(id, limit, true)
	s.appliedLimits[limit][id] = strings.Join(texts, ", ")
}

// Source ranges exclude clients redirected by the host.
func (s *Service) noteRestricted(id processor.ID, svc *processor.Service) {
	s.noteLimit(id, limitHostRanges, slices.ContainsFunc(svc.Frontends, func(f processor.Frontend) bool {
		return f.Restricted && s.hasCards(f.Addr.Addr().Is6()) && s.byHost(f.Addr.Addr())
	}))
}
