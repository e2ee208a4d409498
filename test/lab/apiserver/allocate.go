package apiserver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultServiceNetwork is the default network of cluster IPs, the same as the agent's.
var DefaultServiceNetwork = netip.MustParsePrefix("10.96.0.0/12")

// reserved is the number of addresses per network that are never allocated dynamically, as in a
// real API server.
const reserved = 100

// Allocate sets the IP families, cluster IPs and node ports that a service needs and does not
// specify. A service that exists passes its earlier object as previous and keeps its addresses;
// previous is nil for a new service. networks holds the networks of cluster IPs, those of the
// primary IP version first; new addresses are of the first one of each IP version. Allocate returns an error if another service uses a requested address or port.
func Allocate(s, previous *corev1.Service, others []corev1.Service, networks []netip.Prefix) error {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if err := allocateFamilies(s, networks); err != nil {
		return err
	}
	if headless(&s.Spec) {
		return nil
	}
	return errors.Join(allocateIPs(s, previous, others, networks), allocateNodePorts(s, previous, others))
}

func allocateFamilies(s *corev1.Service, networks []netip.Prefix) error {
	var all []corev1.IPFamily
	for _, n := range networks {
		if f := familyOfNetwork(n); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	policy := corev1.IPFamilyPolicySingleStack
	switch {
	case s.Spec.IPFamilyPolicy != nil:
		policy = *s.Spec.IPFamilyPolicy
	case len(s.Spec.IPFamilies) > 1 || len(clusterIPs(s)) > 1:
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	selectorless := headless(&s.Spec) && len(s.Spec.Selector) == 0 // its endpoints may have any address family
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(all) < 2 && !selectorless {
		return field.Invalid(spec.Child("ipFamilyPolicy"), policy, fmt.Sprintf(
			"this cluster is not configured for dual-stack services, its serviceCIDR is %v: use PreferDualStack or SingleStack", networks[0]))
	}
	families := s.Spec.IPFamilies
	for _, ip := range clusterIPs(s) {
		if len(s.Spec.IPFamilies) == 0 {
			families = append(families, corev1.IPFamily(familyOf(ip)))
		}
	}
	for i, f := range families {
		if !slices.Contains(all, f) && !selectorless {
			return field.Invalid(spec.Child("ipFamilies").Index(i), f, fmt.Sprintf("not configured on this cluster, which has %v", all))
		}
	}
	for _, f := range all {
		if !slices.Contains(families, f) && (len(families) == 0 || policy != corev1.IPFamilyPolicySingleStack) {
			families = append(families, f)
		}
	}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = families, &policy
	return nil
}

func familyOfNetwork(n netip.Prefix) corev1.IPFamily {
	return corev1.IPFamily(familyOf(n.Addr().String()))
}

func allocateIPs(s, previous *corev1.Service, others []corev1.Service, networks []netip.Prefix) error {
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
			return fmt.Errorf("spec.clusterIP: %s is used by service %s: use another one, or omit it", address, by)
		}
	}
	var ips []string
	for _, family := range s.Spec.IPFamilies {
		of := func(ip string) bool { return corev1.IPFamily(familyOf(ip)) == family }
		if i := slices.IndexFunc(own, of); i >= 0 {
			ips = append(ips, own[i])
			continue
		}
		network := networks[slices.IndexFunc(networks, func(n netip.Prefix) bool { return familyOfNetwork(n) == family })]
		address := network.Addr()
		for n := 0; n < reserved || used[address.String()] != ""; n++ {
			address = address.Next()
		}
		if !network.Contains(address) {
			return fmt.Errorf("spec.clusterIP: all addresses of %v are in use", network)
		}
		ips = append(ips, address.String())
	}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = ips[0], ips
	return nil
}

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
		used[nodePort{corev1.ProtocolTCP, o.Spec.HealthCheckNodePort}] = o.Namespace + "/" + o.Name
	}
	if by := used[nodePort{corev1.ProtocolTCP, s.Spec.HealthCheckNodePort}]; by != "" && s.Spec.HealthCheckNodePort != 0 {
		return fmt.Errorf("spec.healthCheckNodePort: node port %d is used by service %s: use another one, or omit it", s.Spec.HealthCheckNodePort, by)
	}
	used[nodePort{corev1.ProtocolTCP, s.Spec.HealthCheckNodePort}] = "itself"
	for _, p := range s.Spec.Ports {
		if by := used[nodePort{protocolOf(p.Protocol), p.NodePort}]; by != "" && p.NodePort != 0 {
			return fmt.Errorf("spec.ports: node port %d is used by service %s: use another one, or omit it", p.NodePort, by)
		}
		used[nodePort{protocolOf(p.Protocol), p.NodePort}] = "itself"
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && s.Spec.HealthCheckNodePort == 0 {
		earlier := int32(0)
		if previous != nil {
			earlier = previous.Spec.HealthCheckNodePort
		}
		var err error
		if s.Spec.HealthCheckNodePort, err = free(used, corev1.ProtocolTCP, earlier); err != nil {
			return err
		}
	}
	if allocate := s.Spec.AllocateLoadBalancerNodePorts; s.Spec.Type == corev1.ServiceTypeLoadBalancer && allocate != nil && !*allocate {
		return nil
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		var err error
		if p.NodePort, err = free(used, protocolOf(p.Protocol), earlier(previous, *p)); err != nil {
			return err
		}
	}
	return nil
}

func free(used map[nodePort]string, protocol corev1.Protocol, preferred int32) (int32, error) {
	port := preferred
	for next := int32(firstNodePort); port == 0 || used[nodePort{protocol, port}] != ""; next++ {
		if next > lastNodePort {
			return 0, errors.New("spec.ports: all node ports are in use")
		}
		port = next
	}
	used[nodePort{protocol, port}] = "itself"
	return port, nil
}

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
