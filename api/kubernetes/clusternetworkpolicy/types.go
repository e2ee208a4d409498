// Package clusternetworkpolicy defines the part of the resource ClusterNetworkPolicy of
// policy.networking.k8s.io/v1alpha2 that Contiv reads. Additions of newer versions appear as unset
// fields and fail closed, see api/contiv/policy.
package clusternetworkpolicy

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the resource.
const (
	Group    = "policy.networking.k8s.io"
	Version  = "v1alpha2"
	Kind     = "ClusterNetworkPolicy"
	Resource = "clusternetworkpolicies"
)

// GroupVersionResource identifies the resource to clients.
var GroupVersionResource = schema.GroupVersionResource{Group: Group, Version: Version, Resource: Resource}

// ClusterNetworkPolicy applies to pods of the whole cluster.
type ClusterNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec Spec `json:"spec"`
	// Status is not used; manifests may contain it.
	Status *runtime.RawExtension `json:"status,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (p *ClusterNetworkPolicy) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec, out.Status = Spec{}, p.Status.DeepCopy()
	if data, err := json.Marshal(p.Spec); err == nil { // values read from JSON can always be encoded
		_ = json.Unmarshal(data, &out.Spec)
	}
	return &out
}

// Tiers.
const (
	Admin    = "Admin"
	Baseline = "Baseline"
)

// Actions.
const (
	Accept = "Accept"
	Deny   = "Deny"
	Pass   = "Pass"
)

// Spec of a ClusterNetworkPolicy.
type Spec struct {
	Tier string `json:"tier"`
	// Priority is 0 to 1000; lower numbers are evaluated first.
	Priority int32         `json:"priority"`
	Subject  Peer          `json:"subject"` // Namespaces or Pods
	Ingress  []IngressRule `json:"ingress,omitempty"`
	Egress   []EgressRule  `json:"egress,omitempty"`
}

// IngressRule applies to connections to subjects.
type IngressRule struct {
	Name      string     `json:"name,omitempty"`
	Action    string     `json:"action"`
	From      []Peer     `json:"from"` // Namespaces or Pods
	Protocols []Protocol `json:"protocols,omitempty"`
}

// EgressRule applies to connections from subjects.
type EgressRule struct {
	Name      string     `json:"name,omitempty"`
	Action    string     `json:"action"`
	To        []Peer     `json:"to"`
	Protocols []Protocol `json:"protocols,omitempty"`
}

// Peer has one field set.
type Peer struct {
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
	Pods       *NamespacedPod        `json:"pods,omitempty"`
	Nodes      *metav1.LabelSelector `json:"nodes,omitempty"`
	Networks   []string              `json:"networks,omitempty"`
	// DomainNames are not supported.
	DomainNames []string `json:"domainNames,omitempty"`
}

// NamespacedPod selects pods that match both selectors.
type NamespacedPod struct {
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	PodSelector       metav1.LabelSelector `json:"podSelector"`
}

// Protocol has one field set.
type Protocol struct {
	TCP                  *Destination `json:"tcp,omitempty"`
	UDP                  *Destination `json:"udp,omitempty"`
	SCTP                 *Destination `json:"sctp,omitempty"`
	DestinationNamedPort string       `json:"destinationNamedPort,omitempty"`
}

// Destination is all ports of a protocol, or some.
type Destination struct {
	DestinationPort *Port `json:"destinationPort,omitempty"`
}

// Port has one field set.
type Port struct {
	Number int32      `json:"number,omitempty"`
	Range  *PortRange `json:"range,omitempty"`
}

// PortRange includes its ends.
type PortRange struct {
	Start int32 `json:"start"`
	End   int32 `json:"end"`
}
