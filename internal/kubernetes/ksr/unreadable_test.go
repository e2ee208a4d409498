package ksr

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestUnreadableFieldsAreNamed(t *testing.T) {
	service := func(spec corev1.ServiceSpec, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
		return &corev1.Service{ObjectMeta: meta("web"), Spec: spec, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}}}
	}
	slice := func(family discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
		s := newSlice("web-1", "web", discoveryv1.Endpoint{Addresses: addresses})
		s.AddressType = family
		return s
	}
	annotated := newPod("a")
	annotated.Annotations = map[string]string{"contivpp.io/allowed-sources": "10.200.0.010, x"}
	hostPort := newPod("a")
	hostPort.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, HostIP: "node1"}}}}
	pod := func(status corev1.PodStatus) *corev1.Pod {
		p := newPod("a")
		p.Status = status
		return p
	}
	node := func(cidrs []string, addresses ...corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{ObjectMeta: meta("n"), Spec: corev1.NodeSpec{PodCIDRs: cidrs}, Status: corev1.NodeStatus{Addresses: addresses}}
	}
	for _, c := range []struct {
		name   string
		object Object
		want   []string
	}{
		{"a service as Kubernetes keeps it", service(corev1.ServiceSpec{ClusterIP: "010.96.0.1", ExternalIPs: []string{"::ffff:10.1.2.4", "198.051.100.009"}, LoadBalancerSourceRanges: []string{" 010.0.0.0/8"}}, corev1.LoadBalancerIngress{IP: "198.051.100.010"}, corev1.LoadBalancerIngress{Hostname: "lb"}), nil},
		{"a headless service", service(corev1.ServiceSpec{ClusterIP: "None"}), nil},
		{"the name of an external service", service(corev1.ServiceSpec{Type: "ExternalName", ExternalName: "x.example"}), nil},
		{"cluster IPs", service(corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1", "fd00:::1"}}), []string{`spec.clusterIPs[1]: "fd00:::1" is no IP address`}},
		{"an external IP", service(corev1.ServiceSpec{ExternalIPs: []string{"lb.example"}}), []string{"spec.externalIPs[0]"}},
		{"a range", service(corev1.ServiceSpec{LoadBalancerSourceRanges: []string{"10.0.0.0/8", "10.0.0.0"}}), []string{`spec.loadBalancerSourceRanges[1]: "10.0.0.0" is no network`}},
		{"an ingress", service(corev1.ServiceSpec{}, corev1.LoadBalancerIngress{IP: "1.2.3"}), []string{"status.loadBalancer.ingress[0].ip"}},
		{"many", service(corev1.ServiceSpec{ExternalIPs: []string{"a", "b", "c", "d", "e"}}), []string{"externalIPs[0]", "externalIPs[2]", "and 2 more"}},
		{"a ServiceCIDR", &networkingv1.ServiceCIDR{ObjectMeta: meta("c"), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd96::"}}}, []string{`spec.cidrs[1]: "fd96::" is no network`}},
		{"a slice as Kubernetes keeps it", slice("IPv4", "010.001.002.002"), nil},
		{"a slice of names", slice("FQDN", "x.example"), nil},
		{"an endpoint", slice("IPv6", "fd00::1", "x"), []string{"endpoints[0].addresses[1]"}},
		{"an endpoint of the other IP version", slice("IPv4", "fd00::1"), []string{"endpoints[0].addresses[0]: fd00::1 is not of the addressType IPv4"}},
		{"a pod without addresses", pod(corev1.PodStatus{}), nil},
		{"addresses of a pod", pod(corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.1.1.2"}, {IP: "x"}}, HostIP: "y"}), []string{"status.podIPs[1]", "status.hostIP"}},
		{"an annotation", annotated, []string{`annotation contivpp.io/allowed-sources: "x" is no IP address`}},
		{"a host port", hostPort, []string{"spec.containers[0].ports[0].hostIP"}},
		{"a node with names", node([]string{"10.1.1.0/24"}, corev1.NodeAddress{Type: "Hostname", Address: "n"}, corev1.NodeAddress{Type: "InternalDNS", Address: "n"}), nil},
		{"a node", node([]string{"10.1.1.0"}, corev1.NodeAddress{Type: "InternalIP", Address: "n"}), []string{"spec.podCIDRs[0]", "status.addresses[0]"}},
	} {
		text := unreadable(c.object)
		if (text == "") != (len(c.want) == 0) {
			t.Errorf("%s: %q", c.name, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", c.name, text, want)
			}
		}
	}
}
