package apiserver

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// ServiceNetwork is where cluster IPs are from: the agents' default.
var ServiceNetwork = netip.MustParsePrefix("10.96.0.0/12")

// firstClusterIP leaves some to services that choose their own, as an API server does.
var firstClusterIP = netip.MustParseAddr("10.96.0.100")

// Allocate gives a service the cluster IP and the node ports that it should have and does not name. previous is
// the same service as it was, whose addresses it keeps; nil if it is new. An address that another service has is an error.
func Allocate(s, previous *corev1.Service, others []corev1.Service) error {
	if s.Spec.Type == corev1.ServiceTypeExternalName || headless(&s.Spec) {
		return nil
	}
	return errors.Join(allocateIP(s, previous, others), allocateNodePorts(s, previous, others))
}

func allocateIP(s, previous *corev1.Service, others []corev1.Service) error {
	used := map[string]string{}
	for _, o := range others {
		for _, address := range clusterIPs(&o) {
			used[address] = o.Namespace + "/" + o.Name
		}
	}
	own := clusterIPs(s)
	if len(own) == 0 && previous != nil && !headless(&previous.Spec) {
		own = clusterIPs(previous)
	}
	for _, address := range own {
		if by := used[address]; by != "" {
			return fmt.Errorf("spec.clusterIP: %s is that of service %s: choose another one, or leave it out", address, by)
		}
	}
	if len(own) == 0 {
		address := firstClusterIP
		for used[address.String()] != "" {
			address = address.Next()
		}
		own = []string{address.String()}
	}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = own[0], own
	return nil
}

// clusterIPs returns the addresses of a service, also of one that names the first alone.
func clusterIPs(s *corev1.Service) []string {
	switch {
	case headless(&s.Spec):
		return nil
	case len(s.Spec.ClusterIPs) > 0:
		return s.Spec.ClusterIPs
	case s.Spec.ClusterIP != "":
		return []string{s.Spec.ClusterIP}
	}
	return nil
}

// nodePort is taken once for each protocol.
type nodePort struct {
	protocol corev1.Protocol
	port     int32
}

func allocateNodePorts(s, previous *corev1.Service, others []corev1.Service) error {
	if s.Spec.Type != corev1.ServiceTypeNodePort && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	used := map[nodePort]string{}
	for _, o := range others {
		for _, p := range o.Spec.Ports {
			used[nodePort{protocolOf(p.Protocol), p.NodePort}] = o.Namespace + "/" + o.Name
		}
	}
	for _, p := range s.Spec.Ports {
		if by := used[nodePort{protocolOf(p.Protocol), p.NodePort}]; by != "" && p.NodePort != 0 {
			return fmt.Errorf("spec.ports: node port %d is that of service %s: choose another one, or leave it out", p.NodePort, by)
		}
		used[nodePort{protocolOf(p.Protocol), p.NodePort}] = "itself"
	}
	if allocate := s.Spec.AllocateLoadBalancerNodePorts; s.Spec.Type == corev1.ServiceTypeLoadBalancer && allocate != nil && !*allocate {
		return nil
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		p.NodePort = earlier(previous, *p)
		for next := int32(firstNodePort); p.NodePort == 0 || used[nodePort{protocolOf(p.Protocol), p.NodePort}] != ""; next++ {
			if next > lastNodePort {
				return errors.New("spec.ports: all node ports are in use")
			}
			p.NodePort = next
		}
		used[nodePort{protocolOf(p.Protocol), p.NodePort}] = "itself"
	}
	return nil
}

// earlier returns the node port that a port of a service had.
func earlier(previous *corev1.Service, port corev1.ServicePort) int32 {
	if previous == nil {
		return 0
	}
	for _, p := range previous.Spec.Ports {
		if p.Port == port.Port && protocolOf(p.Protocol) == protocolOf(port.Protocol) {
			return p.NodePort
		}
	}
	return 0
}
