package service

import (
	"context"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
)

// Pods with the annotation contivpp.io/service-endpoint-if serve at another interface than eth0.
// Only the pod's node knows its addresses, but every node renders the service:
//
//	the pod's node ──VppNode.pod_addresses──> etcd ──NodeUpdate──> Redirects ──> services with endpoints on the pod
//
// Addresses outside the publishing node's pod subnets are ignored, so that a node cannot divert
// connections of other nodes' pods.

// redirects logs each invalid redirect once.
func (s *Service) redirects(ctx context.Context) processor.Redirects {
	all := processor.Redirects{}
	wrong := map[string]bool{}
	for _, node := range s.self.nodes.GetAllNodes() {
		if len(node.PodAddresses) == 0 {
			continue
		}
		subnets := s.self.addresses.PodSubnets(node)
		for _, p := range node.PodAddresses {
			for _, text := range all.Add(node.Name, subnets, processor.ID{Namespace: p.Namespace, Name: p.Name}, p.Interface, p.Addresses...) {
				if wrong[text] = true; !s.wrongRedirects[text] {
					controller.Logger(ctx, s.log).Warn("A node publishes an address for services that does not count", "why", text)
				}
			}
		}
	}
	s.wrongRedirects = wrong
	return all
}

func redirectsPods(event controller.Event) bool {
	update, ok := event.(*nodesync.NodeUpdate)
	return ok && update.AboutPodAddresses()
}

func (s *Service) podAddresses(pod podmanager.PodID) []netip.Addr {
	addrs := s.self.addresses.GetPodIPs(pod)
	if s.services == nil {
		return addrs
	}
	own := s.self.podSubnets()
	for _, r := range s.services.Redirects()[processor.ID{Namespace: pod.Namespace, Name: pod.Name}] {
		if slices.Contains(own, r.Subnet) {
			addrs = append(slices.Clip(addrs), r.Addr)
		}
	}
	return addrs
}

func (s *Service) interfaceAt(endpoint processor.Endpoint) (EndpointInterface, bool) {
	if endpoint.Interface == "" {
		return EndpointInterface{}, false
	}
	for pod, of := range s.services.Redirects() {
		for _, r := range of {
			if r.Addr == endpoint.Addr.Addr() && r.Subnet.Contains(endpoint.Eth0) {
				return EndpointInterface{podmanager.PodID{Namespace: pod.Namespace, Name: pod.Name}, r.Interface, r.Addr}, true
			}
		}
	}
	return EndpointInterface{}, false
}

// EndpointInterface is an interface, other than eth0, at which services reach a pod.
type EndpointInterface struct {
	Pod       podmanager.PodID
	Interface string
	Address   netip.Addr
}
