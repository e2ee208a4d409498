package ksr

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// sourcesAnnotation of a pod lists addresses, separated by commas.
const sourcesAnnotation = annotationPrefix + "/allowed-sources"

const maxUnreadable = 3

// unreadable names the fields with invalid addresses or networks, with reasons. Agents skip these
// fields. It omits policies, whose fields agents report.
func unreadable(o Object) string {
	var f fields
	switch o := o.(type) {
	case *corev1.Service:
		f.ofService(o)
	case *discoveryv1.EndpointSlice:
		f.ofSlice(o)
	case *corev1.Pod:
		f.ofPod(o)
	case *networkingv1.ServiceCIDR:
		each("spec.cidrs", o.Spec.CIDRs, f.network)
	case *corev1.Node:
		f.ofNode(o)
	}
	if more := f.count - len(f.texts); more > 0 {
		f.texts = append(f.texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(f.texts, "; ")
}

type fields struct {
	texts []string
	count int
}

func (f *fields) add(name string, err error) {
	if err == nil {
		return
	}
	if f.count++; f.count <= maxUnreadable {
		f.texts = append(f.texts, name+": "+err.Error())
	}
}

func (f *fields) addr(name, text string) {
	if text != "" {
		_, err := kubeaddr.ParseAddr(text)
		f.add(name, err)
	}
}

func (f *fields) network(name, text string) {
	if text != "" {
		_, err := kubeaddr.ParseNetwork(text)
		f.add(name, err)
	}
}

func each(name string, texts []string, check func(name, text string)) {
	for i, text := range texts {
		check(fmt.Sprintf("%s[%d]", name, i), text)
	}
}

func (f *fields) ofService(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if _, all := firstAndAll(s.Spec.ClusterIP, s.Spec.ClusterIPs); len(all) > 0 && all[0] != corev1.ClusterIPNone {
		each("spec.clusterIPs", all, f.addr)
	}
	each("spec.externalIPs", s.Spec.ExternalIPs, f.addr)
	each("spec.loadBalancerSourceRanges", s.Spec.LoadBalancerSourceRanges, func(name, text string) { f.network(name, strings.TrimSpace(text)) })
	for i, ingress := range s.Status.LoadBalancer.Ingress {
		f.addr(fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), ingress.IP)
	}
}

func (f *fields) ofSlice(s *discoveryv1.EndpointSlice) {
	if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		return
	}
	for i := range s.Endpoints {
		for j, text := range s.Endpoints[i].Addresses {
			addr, err := kubeaddr.ParseAddr(text)
			if err == nil && addr.Is6() != (s.AddressType == discoveryv1.AddressTypeIPv6) {
				err = fmt.Errorf("%s is not of the addressType %s", text, s.AddressType)
			}
			f.add(fmt.Sprintf("endpoints[%d].addresses[%d]", i, j), err)
		}
	}
}

func (f *fields) ofPod(p *corev1.Pod) {
	f.addr("status.podIP", p.Status.PodIP)
	for i, ip := range p.Status.PodIPs {
		f.addr(fmt.Sprintf("status.podIPs[%d]", i), ip.IP)
	}
	f.addr("status.hostIP", p.Status.HostIP)
	for i, ip := range p.Status.HostIPs {
		f.addr(fmt.Sprintf("status.hostIPs[%d]", i), ip.IP)
	}
	for text := range strings.SplitSeq(p.Annotations[sourcesAnnotation], ",") {
		f.addr("annotation "+sourcesAnnotation, strings.TrimSpace(text))
	}
	for i := range p.Spec.Containers {
		for j, port := range p.Spec.Containers[i].Ports {
			f.addr(fmt.Sprintf("spec.containers[%d].ports[%d].hostIP", i, j), port.HostIP)
		}
	}
}

func (f *fields) ofNode(n *corev1.Node) {
	_, cidrs := firstAndAll(n.Spec.PodCIDR, n.Spec.PodCIDRs)
	each("spec.podCIDRs", cidrs, f.network)
	for i, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			f.addr(fmt.Sprintf("status.addresses[%d]", i), a.Address)
		}
	}
}
