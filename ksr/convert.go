package ksr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
)

// annotationPrefix starts the annotations that are reflected.
const annotationPrefix = "contivpp.io"

// encode returns the JSON of a message, byte for byte the same for equal
// messages.
func encode(msg proto.Message) ([]byte, error) {
	data, err := models.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", proto.MessageName(msg), err)
	}
	var compact bytes.Buffer // protojson varies its spaces from build to build
	if err := json.Compact(&compact, data); err != nil {
		return nil, fmt.Errorf("encode %s: %w", proto.MessageName(msg), err)
	}
	return compact.Bytes(), nil
}

func convertNamespace(n *corev1.Namespace) proto.Message {
	out := &namespace.Namespace{Name: n.Name}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		out.Label = append(out.Label, &namespace.Namespace_Label{Key: k, Value: n.Labels[k]})
	}
	return out
}

var addressTypes = map[corev1.NodeAddressType]node.NodeAddress_Type{
	corev1.NodeHostName:    node.NodeAddress_NodeHostName,
	corev1.NodeExternalIP:  node.NodeAddress_NodeExternalIP,
	corev1.NodeInternalIP:  node.NodeAddress_NodeInternalIP,
	corev1.NodeExternalDNS: node.NodeAddress_NodeExternalDNS,
	corev1.NodeInternalDNS: node.NodeAddress_NodeInternalDNS,
}

func convertNode(n *corev1.Node) proto.Message {
	info := n.Status.NodeInfo
	out := &node.Node{
		Name:        n.Name,
		Provider_ID: n.Spec.ProviderID,
		Labels:      maps.Clone(n.Labels),
		Annotations: reflectedAnnotations(n.Annotations),
		NodeInfo: &node.NodeInfo{
			Machine_ID:              info.MachineID,
			System_UUID:             info.SystemUUID,
			Boot_ID:                 info.BootID,
			KernelVersion:           info.KernelVersion,
			OsImage:                 info.OSImage,
			ContainerRuntimeVersion: info.ContainerRuntimeVersion,
			KubeletVersion:          info.KubeletVersion,
			//lint:ignore SA1019 older agents and tools read it
			KubeProxyVersion: info.KubeProxyVersion,
			OperatingSystem:  info.OperatingSystem,
			Architecture:     info.Architecture,
		},
	}
	out.Pod_CIDR, out.Pod_CIDRs = firstAndAll(n.Spec.PodCIDR, n.Spec.PodCIDRs)
	for _, a := range n.Status.Addresses {
		out.Addresses = append(out.Addresses, &node.NodeAddress{Type: addressTypes[a.Type], Address: a.Address})
	}
	return out
}

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
		HostIpAddress: p.Status.HostIP,
		Annotations:   reflectedAnnotations(p.Annotations),
		Labels:        maps.Clone(p.Labels),
		Container:     convertContainers(p.Spec.Containers),
		InitContainer: convertContainers(p.Spec.InitContainers),
		Phase:         phases[p.Status.Phase],
		HostNetwork:   p.Spec.HostNetwork,
		NodeName:      p.Spec.NodeName,
		Uid:           string(p.UID),
	}
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		out.Label = append(out.Label, &pod.Pod_Label{Key: k, Value: p.Labels[k]})
	}
	var ips []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	out.IpAddress, out.IpAddresses = firstAndAll(p.Status.PodIP, ips)
	return out
}

var protocols = map[corev1.Protocol]pod.Pod_Container_Port_Protocol{
	"":                 pod.Pod_Container_Port_TCP,
	corev1.ProtocolTCP: pod.Pod_Container_Port_TCP,
	corev1.ProtocolUDP: pod.Pod_Container_Port_UDP,
	// Nothing may take a port of SCTP for one of TCP.
	corev1.ProtocolSCTP: pod.Pod_Container_Port_SCTP,
}

func convertContainers(containers []corev1.Container) []*pod.Pod_Container {
	var out []*pod.Pod_Container
	for _, c := range containers {
		container := &pod.Pod_Container{Name: c.Name}
		for _, p := range c.Ports {
			protocol, known := protocols[p.Protocol]
			if !known {
				continue // Kubernetes would not accept it
			}
			container.Port = append(container.Port, &pod.Pod_Container_Port{
				Name: p.Name, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: protocol, HostIpAddress: p.HostIP,
			})
		}
		out = append(out, container)
	}
	return out
}

// firstAndAll makes Kubernetes' pairs of fields agree of which the older one
// holds the first element of the newer one; either may be missing.
func firstAndAll(first string, all []string) (string, []string) {
	switch {
	case len(all) > 0:
		return all[0], slices.Clone(all)
	case first != "":
		return first, []string{first}
	}
	return "", nil
}

// reflectedAnnotations are those that are for us.
func reflectedAnnotations(all map[string]string) map[string]string {
	var out map[string]string
	for k, v := range all {
		if strings.HasPrefix(k, annotationPrefix) {
			if out == nil {
				out = make(map[string]string)
			}
			out[k] = v
		}
	}
	return out
}
