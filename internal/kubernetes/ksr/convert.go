package ksr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const annotationPrefix = "contivpp.io"

// encode returns canonical JSON: equal messages have equal bytes.
func encode(msg proto.Message) ([]byte, error) {
	data, err := models.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", proto.MessageName(msg), err)
	}
	var compact bytes.Buffer // protojson varies its spaces between builds
	if err := json.Compact(&compact, data); err != nil {
		return nil, fmt.Errorf("encode %s: %w", proto.MessageName(msg), err)
	}
	return compact.Bytes(), nil
}

func convertNamespace(n *corev1.Namespace) proto.Message {
	out := &namespace.Namespace{Name: n.Name}
	for k, v := range sorted(n.Labels) {
		out.Label = append(out.Label, &namespace.Namespace_Label{Key: k, Value: v})
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

func trimNamespace(n *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: trimMeta(&n.ObjectMeta)}
}

func trimNode(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: trimMeta(&n.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs, ProviderID: n.Spec.ProviderID},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses, NodeInfo: n.Status.NodeInfo},
	}
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels, Annotations: reflectedAnnotations(m.Annotations), DeletionTimestamp: m.DeletionTimestamp,
	}
}

func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// firstAndAll completes a pair of Kubernetes fields, where the older one holds the newer one's
// first element. One may be missing.
func firstAndAll(first string, all []string) (string, []string) {
	switch {
	case len(all) > 0:
		return all[0], slices.Clone(all)
	case first != "":
		return first, []string{first}
	}
	return "", nil
}

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
