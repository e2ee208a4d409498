package apiserver

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const firstNodePort, lastNodePort = 30000, 32767

func checkService(s *corev1.ServiceSpec) field.ErrorList {
	errs := metavalidation.ValidateLabels(s.Selector, spec.Child("selector"))
	switch s.Type {
	case "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	case corev1.ServiceTypeExternalName:
		if s.ExternalName == "" {
			errs = append(errs, field.Required(spec.Child("externalName"), "a service of type ExternalName names a host"))
		}
	default:
		errs = append(errs, oneOf(spec.Child("type"), s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName))
	}
	errs = append(errs, checkClusterIPs(s)...)
	errs = append(errs, checkServicePorts(s)...)
	for i, address := range s.ExternalIPs {
		errs = append(errs, checkUsableIP(spec.Child("externalIPs").Index(i), address)...)
	}
	if s.LoadBalancerIP != "" {
		errs = append(errs, checkIP(spec.Child("loadBalancerIP"), s.LoadBalancerIP)...)
	}
	for i, network := range s.LoadBalancerSourceRanges {
		errs = append(errs, checkCIDR(spec.Child("loadBalancerSourceRanges").Index(i), network)...)
	}
	return append(errs, append(checkChoices(s), checkType(s)...)...)
}

func checkType(s *corev1.ServiceSpec) (errs field.ErrorList) {
	balanced := s.Type == corev1.ServiceTypeLoadBalancer
	if s.Type == "" || s.Type == corev1.ServiceTypeClusterIP {
		for i, p := range s.Ports {
			if p.NodePort != 0 {
				errs = append(errs, field.Forbidden(spec.Child("ports").Index(i).Child("nodePort"), "may not be used when `type` is ClusterIP: use NodePort"))
			}
		}
		if s.ExternalTrafficPolicy != "" && len(s.ExternalIPs) == 0 {
			errs = append(errs, field.Invalid(spec.Child("externalTrafficPolicy"), s.ExternalTrafficPolicy, "may only be set for services that clients outside reach: by type NodePort, LoadBalancer, or externalIPs"))
		}
	}
	if len(s.LoadBalancerSourceRanges) > 0 && !balanced {
		errs = append(errs, field.Forbidden(spec.Child("loadBalancerSourceRanges"), "may only be used when `type` is LoadBalancer"))
	}
	if s.HealthCheckNodePort != 0 && (!balanced || s.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal) {
		errs = append(errs, field.Invalid(spec.Child("healthCheckNodePort"), s.HealthCheckNodePort, "may only be set when `type` is LoadBalancer and `externalTrafficPolicy` is Local"))
	}
	return errs
}

func checkInNetworks(s *corev1.ServiceSpec, networks []netip.Prefix) (errs field.ErrorList) {
	for _, text := range clusterIPs(&corev1.Service{Spec: *s}) {
		addr, err := netip.ParseAddr(text)
		if err == nil && !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) }) {
			errs = append(errs, field.Invalid(spec.Child("clusterIP"), text, fmt.Sprintf("must be in a network of services, serviceCIDR, which is %v", networks)))
		}
	}
	return errs
}

func checkChoices(s *corev1.ServiceSpec) (errs field.ErrorList) {
	switch s.SessionAffinity {
	case "", corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP:
	default:
		errs = append(errs, oneOf(spec.Child("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone))
	}
	if c := s.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		if t := *c.ClientIP.TimeoutSeconds; t < 1 || t > 86400 {
			errs = append(errs, field.Invalid(spec.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), t, "must be between 1 and 86400 seconds, inclusive"))
		}
	}
	switch s.ExternalTrafficPolicy {
	case "", corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal:
	default:
		errs = append(errs, oneOf(spec.Child("externalTrafficPolicy"), s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal))
	}
	if p := s.InternalTrafficPolicy; p != nil && *p != corev1.ServiceInternalTrafficPolicyCluster && *p != corev1.ServiceInternalTrafficPolicyLocal {
		errs = append(errs, oneOf(spec.Child("internalTrafficPolicy"), *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal))
	}
	if p := s.IPFamilyPolicy; p != nil && *p != corev1.IPFamilyPolicySingleStack && *p != corev1.IPFamilyPolicyPreferDualStack && *p != corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, oneOf(spec.Child("ipFamilyPolicy"), *p, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack))
	}
	for i, f := range s.IPFamilies {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			errs = append(errs, oneOf(spec.Child("ipFamilies").Index(i), f, corev1.IPv4Protocol, corev1.IPv6Protocol))
		}
	}
	return errs
}

func headless(s *corev1.ServiceSpec) bool {
	return s.ClusterIP == corev1.ClusterIPNone || len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == corev1.ClusterIPNone
}

func checkClusterIPs(s *corev1.ServiceSpec) (errs field.ErrorList) {
	if headless(s) {
		return nil
	}
	if s.ClusterIP != "" {
		errs = append(errs, checkIP(spec.Child("clusterIP"), s.ClusterIP)...)
	}
	for i, address := range s.ClusterIPs {
		errs = append(errs, checkIP(spec.Child("clusterIPs").Index(i), address)...)
	}
	if len(s.ClusterIPs) > 0 && s.ClusterIP != "" && s.ClusterIP != s.ClusterIPs[0] {
		errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(0), s.ClusterIPs[0], fmt.Sprintf("must be clusterIP, %s", s.ClusterIP)))
	}
	return errs
}

func checkServicePorts(s *corev1.ServiceSpec) (errs field.ErrorList) {
	at := spec.Child("ports")
	if len(s.Ports) == 0 && !headless(s) && s.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(at, "a service has at least one port"))
	}
	type frontend struct {
		protocol corev1.Protocol
		port     int32
	}
	names, ports := map[string]bool{}, map[frontend]bool{}
	for i, p := range s.Ports {
		at := at.Index(i)
		switch {
		case p.Name == "" && len(s.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), "several ports must have names"))
		case p.Name != "" && names[p.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		case p.Name != "":
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
		}
		names[p.Name] = true
		errs = append(errs, checkPort(at.Child("port"), p.Port)...)
		errs = append(errs, checkProtocol(at.Child("protocol"), p.Protocol)...)
		if front := (frontend{protocolOf(p.Protocol), p.Port}); ports[front] {
			errs = append(errs, field.Duplicate(at.Child("port"), p.Port))
		} else {
			ports[front] = true
		}
		if p.TargetPort.IntVal != 0 || p.TargetPort.StrVal != "" {
			errs = append(errs, checkTarget(at.Child("targetPort"), p.TargetPort)...)
		}
		if p.NodePort != 0 && (p.NodePort < firstNodePort || p.NodePort > lastNodePort) {
			errs = append(errs, field.Invalid(at.Child("nodePort"), p.NodePort, fmt.Sprintf("must be between %d and %d, inclusive", firstNodePort, lastNodePort)))
		}
	}
	return errs
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
