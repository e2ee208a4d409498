package ksr

import (
	"cmp"
	"maps"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func convertService(s *corev1.Service) proto.Message {
	spec := &s.Spec
	out := &service.Service{
		Name:                     s.Name,
		Namespace:                s.Namespace,
		Labels:                   maps.Clone(s.Labels),
		Annotations:              reflectedAnnotations(s.Annotations),
		Selector:                 maps.Clone(spec.Selector),
		ServiceType:              string(cmp.Or(spec.Type, corev1.ServiceTypeClusterIP)),
		ExternalIps:              spec.ExternalIPs,
		SessionAffinity:          string(cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone)),
		SessionAffinityTimeout:   affinityTimeout(spec),
		LoadbalancerIp:           spec.LoadBalancerIP,
		LoadbalancerSourceRanges: spec.LoadBalancerSourceRanges,
		ExternalTrafficPolicy:    string(cmp.Or(spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)),
		InternalTrafficPolicy:    string(corev1.ServiceInternalTrafficPolicyCluster),
		HealthCheckNodePort:      spec.HealthCheckNodePort,
		PublishNotReadyAddresses: spec.PublishNotReadyAddresses,
		Port:                     convertServicePorts(spec.Ports),
	}
	if !s.CreationTimestamp.IsZero() {
		out.CreationTime = s.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	out.ClusterIp, out.ClusterIps = firstAndAll(spec.ClusterIP, spec.ClusterIPs)
	for _, f := range spec.IPFamilies {
		out.IpFamilies = append(out.IpFamilies, string(f))
	}
	if spec.IPFamilyPolicy != nil {
		out.IpFamilyPolicy = string(*spec.IPFamilyPolicy)
	}
	if spec.InternalTrafficPolicy != nil {
		out.InternalTrafficPolicy = string(*spec.InternalTrafficPolicy)
	}
	if spec.TrafficDistribution != nil {
		out.TrafficDistribution = *spec.TrafficDistribution
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		way := &service.Service_LoadBalancerIngress{Ip: ingress.IP, Hostname: ingress.Hostname}
		if ingress.IPMode != nil {
			way.IpMode = string(*ingress.IPMode)
		}
		out.LbIngress = append(out.LbIngress, way)
		if way.GetIp() != "" && way.GetIpMode() != string(corev1.LoadBalancerIPModeProxy) {
			out.LbIngressIps = append(out.LbIngressIps, way.GetIp())
		}
	}
	return out
}

func affinityTimeout(spec *corev1.ServiceSpec) uint32 {
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return uint32(max(0, *c.ClientIP.TimeoutSeconds))
	}
	return uint32(corev1.DefaultClientIPServiceAffinitySeconds)
}

func convertServicePorts(ports []corev1.ServicePort) []*service.Service_ServicePort {
	var out []*service.Service_ServicePort
	for _, p := range ports {
		port := &service.Service_ServicePort{
			Name:       p.Name,
			Protocol:   string(cmp.Or(p.Protocol, corev1.ProtocolTCP)),
			Port:       p.Port,
			NodePort:   p.NodePort,
			TargetPort: &service.Service_ServicePort_IntOrString{IntVal: cmp.Or(p.TargetPort.IntVal, p.Port)},
		}
		if p.TargetPort.Type == intstr.String {
			port.TargetPort = &service.Service_ServicePort_IntOrString{
				Type: service.Service_ServicePort_IntOrString_STRING, StringVal: p.TargetPort.StrVal,
			}
		}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		out = append(out, port)
	}
	return out
}

var sliceTypes = map[discoveryv1.AddressType]endpointslice.EndpointSlice_AddressType{
	discoveryv1.AddressTypeIPv4: endpointslice.EndpointSlice_IPv4,
	discoveryv1.AddressTypeIPv6: endpointslice.EndpointSlice_IPv6,
	discoveryv1.AddressTypeFQDN: endpointslice.EndpointSlice_FQDN,
}

// unproxied are labels of EndpointSlices that service proxies ignore, regardless of their values.
var unproxied = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

func convertEndpointSlice(s *discoveryv1.EndpointSlice) proto.Message {
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	for _, label := range unproxied {
		if _, ignored := s.Labels[label]; ignored {
			return nil
		}
	}
	out := &endpointslice.EndpointSlice{Name: s.Name, Namespace: s.Namespace, Service: name, AddressType: sliceTypes[s.AddressType],
		TriggerTime: s.Annotations[corev1.EndpointsLastChangeTriggerTime]}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, &endpointslice.EndpointSlice_Port{
			Name: deref(p.Name), Port: deref(p.Port), AppProtocol: deref(p.AppProtocol),
			Protocol: string(cmp.Or(deref(p.Protocol), corev1.ProtocolTCP)),
		})
	}
	for i := range s.Endpoints {
		out.Endpoints = append(out.Endpoints, convertEndpoint(&s.Endpoints[i]))
	}
	return out
}

// convertServiceCIDR ignores conditions: services may have addresses of a range that is not ready or
// waits for its deletion.
func convertServiceCIDR(c *networkingv1.ServiceCIDR) proto.Message {
	return &servicecidr.ServiceCIDR{Name: c.Name, Cidrs: c.Spec.CIDRs}
}

func trimServiceCIDR(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: trimMeta(&c.ObjectMeta), Spec: c.Spec}
}

// convertEndpoint applies Kubernetes' defaults of conditions: ready, serving if ready, not
// terminating.
func convertEndpoint(e *discoveryv1.Endpoint) *endpointslice.EndpointSlice_Endpoint {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	out := &endpointslice.EndpointSlice_Endpoint{
		Addresses:   e.Addresses,
		Ready:       ready,
		Serving:     ready,
		Terminating: deref(e.Conditions.Terminating),
		HostName:    deref(e.Hostname),
		NodeName:    deref(e.NodeName),
		Zone:        deref(e.Zone),
	}
	if e.Conditions.Serving != nil {
		out.Serving = *e.Conditions.Serving
	}
	if r := e.TargetRef; r != nil {
		// Without the resource version, which changes more often than the reflected fields.
		out.TargetRef = &endpointslice.EndpointSlice_ObjectReference{
			Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Uid: string(r.UID), ApiVersion: r.APIVersion,
		}
	}
	if e.Hints != nil {
		for _, zone := range e.Hints.ForZones {
			out.ForZones = append(out.ForZones, zone.Name)
		}
		for _, node := range e.Hints.ForNodes {
			out.ForNodes = append(out.ForNodes, node.Name)
		}
	}
	return out
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func trimService(s *corev1.Service) *corev1.Service {
	meta := trimMeta(&s.ObjectMeta)
	meta.CreationTimestamp = s.CreationTimestamp
	return &corev1.Service{ObjectMeta: meta, Spec: s.Spec, Status: corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer}}
}

func trimEndpointSlice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	meta := trimMeta(&s.ObjectMeta)
	if trigger, ok := s.Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		meta.Annotations = maps.Clone(meta.Annotations)
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[corev1.EndpointsLastChangeTriggerTime] = trigger
	}
	return &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
}
