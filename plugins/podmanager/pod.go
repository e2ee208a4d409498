package podmanager

import (
	"maps"
	"net/netip"
	"slices"
	"time"

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

// Sandbox is a network namespace that a runtime made for a pod.
type Sandbox struct {
	ContainerID string `json:"containerID"`
	// UID of the pod; empty if the runtime did not say.
	UID string `json:"uid,omitempty"`
}

// LocalPod is a pod that is wired on this node. Of the sandboxes that claim the name of a pod, it is the current one.
type LocalPod struct {
	ID PodID `json:"id"`
	// UID of the pod in Kubernetes; empty if the runtime did not say.
	UID string `json:"uid,omitempty"`
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
	// Older are the sandboxes that this one replaced, the oldest first.
	Older []Sandbox `json:"older,omitempty"`
	// arrival is when the first ADD for the sandbox arrived at this agent; zero if an earlier agent served it.
	arrival time.Time
}

// maxOlder bounds LocalPod.Older.
const maxOlder = 16

// withOlder returns the pod as the one that replaces another.
func (p LocalPod) withOlder(replaced *LocalPod) LocalPod {
	p.Older = slices.Clone(replaced.Older)
	if replaced.ContainerID != p.ContainerID {
		p.Older = append(p.Older, Sandbox{replaced.ContainerID, replaced.UID})
	}
	p.Older = p.Older[max(len(p.Older)-maxOlder, 0):]
	return p
}

// replaces reports whether a new sandbox takes the place of another one that is wired for the pod.
func (p *LocalPod) replaces(old *LocalPod) bool {
	return !old.sameAttachment(p) && !p.isSecondOf(old) && !old.isNewerThan(p)
}

// isSecondOf reports whether the pod is a second attachment of the same container.
func (p *LocalPod) isSecondOf(first *LocalPod) bool {
	return first.ContainerID == p.ContainerID && first.IfName != p.IfName
}

// isNewerThan reports whether another sandbox that claims the pod's name is older than the pod's: it was replaced, belongs to a pod
// that was replaced, or its first ADD arrived earlier.
func (p *LocalPod) isNewerThan(other *LocalPod) bool {
	return !other.arrival.IsZero() && p.arrival.After(other.arrival) || slices.ContainsFunc(p.Older, func(o Sandbox) bool {
		return o.ContainerID == other.ContainerID || o.UID != "" && o.UID == other.UID && o.UID != p.UID
	})
}

// LocalPods maps IDs to local pods.
type LocalPods map[PodID]*LocalPod

// Pod is a pod that Kubernetes knows, on any node.
type Pod struct {
	ID PodID
	// UID is what the runtime gives as K8S_POD_UID; empty if it is not known.
	UID string
	// IPs may be empty; the first is the primary one.
	IPs         []netip.Addr
	NodeName    string
	HostNetwork bool
	// Finished: no container of the pod will run any more.
	Finished bool
	// Terminating: the pod was asked to end. It may still be running.
	Terminating bool
	Labels      map[string]string
	Annotations map[string]string
}

// Runs reports whether a sandbox on a node belongs to the pod. A UID or a node that is not known rules nothing out.
func (p *Pod) Runs(node, uid string) bool {
	return (p.NodeName == "" || p.NodeName == node) && (p.UID == "" || uid == "" || p.UID == uid)
}

// Pods maps IDs to pods.
type Pods map[PodID]*Pod

// FromKube translates a reflected pod. Texts that are no IP addresses are left out.
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
