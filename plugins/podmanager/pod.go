package podmanager

import (
	"maps"
	"net/netip"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/kubeaddr"
)

// PodID identifies a pod in Kubernetes.
type PodID struct {
	Name      string
	Namespace string
}

// String returns "namespace/name".
func (id PodID) String() string { return id.Namespace + "/" + id.Name }

// IDOf returns the ID of a reflected pod.
func IDOf(p *pod.Pod) PodID { return PodID{Name: p.GetName(), Namespace: p.GetNamespace()} }

// LocalPod is a pod that is wired on this node.
type LocalPod struct {
	ID PodID `json:"id"`
	// ContainerID of the sandbox.
	ContainerID string `json:"containerID"`
	// NetNS is the path of the network namespace, NetNSID identifies that namespace, since the path
	// may lead to another one later.
	NetNS   string `json:"netns"`
	NetNSID string `json:"netnsID"`
	// IfName is the name of the interface inside of the pod.
	IfName string `json:"ifName"`
	// Network is the name of the network configuration; empty if it is not known.
	Network string `json:"network,omitempty"`
	// HostPorts of the node lead to the pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
	// Custom is what the pod's annotations declared when they were last known.
	Custom CustomIfs `json:"custom,omitzero"`
}

// LocalPods maps IDs to local pods.
type LocalPods map[PodID]*LocalPod

// Pod is a pod that Kubernetes knows, on any node.
type Pod struct {
	ID PodID
	// IPs may be empty; the first is the primary one.
	IPs         []netip.Addr
	NodeName    string
	HostNetwork bool
	// Finished: no container of the pod will run any more.
	Finished    bool
	Labels      map[string]string
	Annotations map[string]string
}

// Pods maps IDs to pods.
type Pods map[PodID]*Pod

// FromKube translates a reflected pod. Texts that are no IP addresses are left out.
func FromKube(p *pod.Pod) *Pod {
	result := &Pod{
		ID:          IDOf(p),
		NodeName:    p.GetNodeName(),
		HostNetwork: p.GetHostNetwork(),
		Finished:    p.GetPhase() == pod.Pod_SUCCEEDED || p.GetPhase() == pod.Pod_FAILED,
		Labels:      maps.Clone(p.GetLabels()),
		Annotations: maps.Clone(p.GetAnnotations()),
	}
	result.IPs = kubeaddr.ParseAddrs(append([]string{p.GetIpAddress()}, p.GetIpAddresses()...)...)
	if len(result.Labels) == 0 && len(p.GetLabel()) > 0 {
		result.Labels = make(map[string]string)
		for _, label := range p.GetLabel() {
			result.Labels[label.GetKey()] = label.GetValue()
		}
	}
	return result
}
