package ksr

import (
	"cmp"
	"maps"

	"github.com/contiv/contiv/api/contiv/pod"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var phases = map[corev1.PodPhase]pod.Pod_Phase{
	corev1.PodPending:   pod.Pod_PENDING,
	corev1.PodRunning:   pod.Pod_RUNNING,
	corev1.PodSucceeded: pod.Pod_SUCCEEDED,
	corev1.PodFailed:    pod.Pod_FAILED,
}

func convertPod(p *corev1.Pod) proto.Message {
	out := &pod.Pod{
		Name:          p.Name,
		Namespace:     p.Namespace,
		Annotations:   reflectedAnnotations(p.Annotations),
		Labels:        maps.Clone(p.Labels),
		Container:     convertContainers(p.Spec.Containers),
		InitContainer: convertInitContainers(p.Spec.InitContainers),
		Phase:         phases[p.Status.Phase],
		HostNetwork:   p.Spec.HostNetwork,
		NodeName:      p.Spec.NodeName,
		Uid:           string(runtimeUID(p)),
		Terminating:   p.DeletionTimestamp != nil,
	}
	for k, v := range sorted(p.Labels) {
		out.Label = append(out.Label, &pod.Pod_Label{Key: k, Value: v})
	}
	var ips, hostIPs []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	for _, ip := range p.Status.HostIPs {
		hostIPs = append(hostIPs, ip.IP)
	}
	out.IpAddress, out.IpAddresses = firstAndAll(p.Status.PodIP, ips)
	out.HostIpAddress, out.HostIpAddresses = firstAndAll(p.Status.HostIP, hostIPs)
	return out
}

// runtimeUID returns the UID that the kubelet gives to the runtime. For a static pod, it is the
// hash of the file, which the object has as an annotation.
func runtimeUID(p *corev1.Pod) types.UID {
	return cmp.Or(types.UID(p.Annotations[corev1.MirrorPodAnnotationKey]), p.UID)
}

var protocols = map[corev1.Protocol]pod.Pod_Container_Port_Protocol{
	"":                  pod.Pod_Container_Port_TCP,
	corev1.ProtocolTCP:  pod.Pod_Container_Port_TCP,
	corev1.ProtocolUDP:  pod.Pod_Container_Port_UDP,
	corev1.ProtocolSCTP: pod.Pod_Container_Port_SCTP,
}

func convertContainers(containers []corev1.Container) []*pod.Pod_Container {
	var out []*pod.Pod_Container
	for _, c := range containers {
		container := &pod.Pod_Container{Name: c.Name}
		for _, p := range c.Ports {
			protocol, known := protocols[p.Protocol]
			if !known {
				continue // Kubernetes rejects it
			}
			container.Port = append(container.Port, &pod.Pod_Container_Port{
				Name: p.Name, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: protocol, HostIpAddress: p.HostIP,
			})
		}
		out = append(out, container)
	}
	return out
}

func convertInitContainers(containers []corev1.Container) []*pod.Pod_Container {
	out := convertContainers(containers)
	for i, c := range containers {
		out[i].Restartable = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return out
}

func trimPod(p *corev1.Pod) *corev1.Pod {
	meta := trimMeta(&p.ObjectMeta)
	meta.UID = runtimeUID(p) // its annotation is dropped
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			HostNetwork:    p.Spec.HostNetwork,
			Containers:     trimContainers(p.Spec.Containers),
			InitContainers: trimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase:  p.Status.Phase,
			HostIP: p.Status.HostIP, HostIPs: p.Status.HostIPs,
			PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
		},
	}
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		out = append(out, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
	}
	return out
}
