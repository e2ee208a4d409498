package podmanager

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
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

// Sandbox is a network namespace made by a runtime for a pod.
type Sandbox struct {
	ContainerID string `json:"containerID"`
	// UID of the pod, or "" if the runtime did not set it.
	UID string `json:"uid,omitempty"`
}

// LocalPod is the current sandbox of a pod wired on this node.
type LocalPod struct {
	ID PodID `json:"id"`
	// UID of the pod in Kubernetes, or "" if the runtime did not set it.
	UID string `json:"uid,omitempty"`
	// ContainerID of the sandbox.
	ContainerID string `json:"containerID"`
	// NetNS is the path of the network namespace. NetNSID identifies it, because the path may be
	// reused.
	NetNS   string `json:"netns"`
	NetNSID string `json:"netnsID"`
	// IfName is the interface name inside the pod.
	IfName string `json:"ifName"`
	// Network is the name of the network configuration, or "" if unknown.
	Network string `json:"network,omitempty"`
	// HostPorts are the node's ports that lead to the pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
	// Custom is the last known declaration in the pod's annotations.
	Custom CustomIfs `json:"custom,omitzero"`
	// Older lists the replaced sandboxes, the oldest first.
	Older []Sandbox `json:"older,omitempty"`
	// arrival is the time of the sandbox's first ADD. It is zero if an earlier agent served it.
	arrival time.Time
}

const maxOlder = 16

func (p LocalPod) withOlder(replaced *LocalPod) LocalPod {
	p.Older = slices.Clone(replaced.Older)
	if replaced.ContainerID != p.ContainerID {
		p.Older = append(p.Older, Sandbox{replaced.ContainerID, replaced.UID})
	}
	p.Older = p.Older[max(len(p.Older)-maxOlder, 0):]
	return p
}

func (p *LocalPod) replaces(old *LocalPod) bool {
	return !old.sameAttachment(p) && !p.isSecondOf(old) && !old.isNewerThan(p)
}

// isSecondOf reports whether both are attachments of the same container.
func (p *LocalPod) isSecondOf(first *LocalPod) bool {
	return first.ContainerID == p.ContainerID && first.IfName != p.IfName
}

// isNewerThan reports whether another sandbox with the name is older: it was replaced, belongs to a
// replaced pod, or its first ADD came earlier.
func (p *LocalPod) isNewerThan(other *LocalPod) bool {
	return !other.arrival.IsZero() && p.arrival.After(other.arrival) || slices.ContainsFunc(p.Older, func(o Sandbox) bool {
		return o.ContainerID == other.ContainerID || o.UID != "" && o.UID == other.UID && o.UID != p.UID
	})
}

// LocalPods maps IDs to local pods.
type LocalPods map[PodID]*LocalPod

// Pod is a pod in Kubernetes, on any node.
type Pod struct {
	ID PodID
	// UID is the value of K8S_POD_UID, or "" if unknown.
	UID string
	// IPs, the primary one first. May be empty.
	IPs         []netip.Addr
	NodeName    string
	HostNetwork bool
	// Finished means that no container of the pod will run again.
	Finished bool
	// Terminating means that deletion was requested. The pod may still run.
	Terminating bool
	Labels      map[string]string
	Annotations map[string]string
}

// Runs reports whether a sandbox on a node may belong to the pod. An unknown UID or node matches.
func (p *Pod) Runs(node, uid string) bool {
	return (p.NodeName == "" || p.NodeName == node) && (p.UID == "" || uid == "" || p.UID == uid)
}

// Pods maps IDs to pods.
type Pods map[PodID]*Pod

// FromKube converts a reflected pod. It skips invalid IP addresses.
func FromKube(p *pod.Pod) *Pod {
	result := &Pod{
		ID:          IDOf(p),
		UID:         p.GetUid(),
		NodeName:    p.GetNodeName(),
		HostNetwork: p.GetHostNetwork(),
		Finished:    p.GetPhase() == pod.Pod_SUCCEEDED || p.GetPhase() == pod.Pod_FAILED,
		Terminating: p.GetTerminating(),
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
