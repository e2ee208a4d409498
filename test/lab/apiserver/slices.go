package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ManagedBy is the "managed-by" label of EndpointSlices made by Slices.
const ManagedBy = "contiv-lab"

// Slices returns the EndpointSlices of services with a selector for pods with addresses. Pods that
// resolve a named port to different numbers are in different slices. A service without pods gets an
// empty slice per IP version, as in Kubernetes. Slices skips services that already have a slice in
// given, the user's own slices.
func Slices(services []corev1.Service, pods []corev1.Pod, given []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	var all []discoveryv1.EndpointSlice
	for _, s := range services {
		if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || slices.ContainsFunc(given, func(e discoveryv1.EndpointSlice) bool { return isOf(e, s) }) {
			continue
		}
		all = append(all, slicesOf(s, pods)...)
	}
	return all
}

func isOf(e discoveryv1.EndpointSlice, s corev1.Service) bool {
	return e.Namespace == s.Namespace && e.Labels[discoveryv1.LabelServiceName] == s.Name && e.Labels[discoveryv1.LabelManagedBy] != ManagedBy
}

func slicesOf(s corev1.Service, pods []corev1.Pod) []discoveryv1.EndpointSlice {
	var list []discoveryv1.EndpointSlice
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, pod := range pods {
		if pod.Namespace != s.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			ports, family := portsOf(s, pod), familyOf(ip.IP)
			i := slices.IndexFunc(list, func(e discoveryv1.EndpointSlice) bool {
				return e.AddressType == family && slices.EqualFunc(e.Ports, ports, samePort)
			})
			if i < 0 {
				i = len(list)
				list = append(list, emptySlice(s, i+1, family, ports))
			}
			ready := true
			list[i].Endpoints = append(list[i].Endpoints, discoveryv1.Endpoint{
				Addresses: []string{ip.IP}, NodeName: &pod.Spec.NodeName,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			})
		}
	}
	for _, family := range familiesOf(s) {
		if !slices.ContainsFunc(list, func(e discoveryv1.EndpointSlice) bool { return e.AddressType == family }) {
			list = append(list, emptySlice(s, len(list)+1, family, nil))
		}
	}
	return list
}

func emptySlice(s corev1.Service, number int, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-lab%d", s.Name, number), Namespace: s.Namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name, discoveryv1.LabelManagedBy: ManagedBy}},
		AddressType: family, Ports: ports, Endpoints: []discoveryv1.Endpoint{},
	}
}

// familiesOf returns the IP versions of a service from ipFamilies or its cluster IPs. The default
// is IPv4.
func familiesOf(s corev1.Service) (families []discoveryv1.AddressType) {
	for _, f := range s.Spec.IPFamilies {
		families = append(families, discoveryv1.AddressType(f))
	}
	if len(families) > 0 {
		return families
	}
	for _, ip := range s.Spec.ClusterIPs {
		families = append(families, familyOf(ip))
	}
	if len(families) == 0 {
		families = append(families, familyOf(s.Spec.ClusterIP))
	}
	return families
}

// portsOf returns the ports of a service on one pod. It omits named ports that the pod does not
// declare.
func portsOf(s corev1.Service, pod corev1.Pod) (ports []discoveryv1.EndpointPort) {
	for _, p := range s.Spec.Ports {
		protocol, number := protocolOf(p.Protocol), p.TargetPort.IntVal
		switch {
		case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
			number = namedPort(pod, p.TargetPort.StrVal, protocol)
		case number == 0:
			number = p.Port
		}
		if number != 0 {
			ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &protocol, Port: &number})
		}
	}
	return ports
}

func namedPort(pod corev1.Pod, name string, protocol corev1.Protocol) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name && protocolOf(p.Protocol) == protocol {
				return p.ContainerPort
			}
		}
	}
	return 0
}

func samePort(a, b discoveryv1.EndpointPort) bool {
	return *a.Name == *b.Name && *a.Protocol == *b.Protocol && *a.Port == *b.Port
}

func familyOf(address string) discoveryv1.AddressType {
	for _, c := range address {
		if c == ':' {
			return discoveryv1.AddressTypeIPv6
		}
	}
	return discoveryv1.AddressTypeIPv4
}
