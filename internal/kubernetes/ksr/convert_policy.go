package ksr

import (
	"fmt"
	"time"

	"github.com/contiv/contiv/api/contiv/policy"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func convertPolicy(p *networkingv1.NetworkPolicy) proto.Message {
	out := &policy.Policy{
		Name:       p.Name,
		Namespace:  p.Namespace,
		Label:      policyLabels(p.Labels),
		Pods:       convertSelector(&p.Spec.PodSelector),
		PolicyType: policyType(&p.Spec),
		ChangeTime: changeTime(&p.ObjectMeta),
	}
	for _, t := range p.Spec.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			out.Invalid = append(out.Invalid, fmt.Sprintf("spec.policyTypes: %.64q is none of %s and %s; the policy isolates in both directions", t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
		}
	}
	for _, r := range p.Spec.Ingress {
		out.IngressRule = append(out.IngressRule, &policy.Policy_IngressRule{Port: convertPolicyPorts(r.Ports), From: convertPeers(r.From)})
	}
	for _, r := range p.Spec.Egress {
		out.EgressRule = append(out.EgressRule, &policy.Policy_EgressRule{Port: convertPolicyPorts(r.Ports), To: convertPeers(r.To)})
	}
	return out
}

// policyType adds the default, which is optional in manifests. An unknown type applies to both
// directions.
func policyType(spec *networkingv1.NetworkPolicySpec) policy.Policy_PolicyType {
	ingress, egress := false, false
	for _, t := range spec.PolicyTypes {
		ingress = ingress || t != networkingv1.PolicyTypeEgress
		egress = egress || t != networkingv1.PolicyTypeIngress
	}
	if len(spec.PolicyTypes) == 0 {
		ingress, egress = true, len(spec.Egress) > 0
	}
	switch {
	case ingress && egress:
		return policy.Policy_INGRESS_AND_EGRESS
	case egress:
		return policy.Policy_EGRESS
	}
	return policy.Policy_INGRESS
}

func policyLabels(labels map[string]string) []*policy.Policy_Label {
	var out []*policy.Policy_Label
	for k, v := range sorted(labels) {
		out = append(out, &policy.Policy_Label{Key: k, Value: v})
	}
	return out
}

var operators = map[metav1.LabelSelectorOperator]policy.Policy_LabelSelector_LabelExpression_Operator{
	metav1.LabelSelectorOpIn:           policy.Policy_LabelSelector_LabelExpression_IN,
	metav1.LabelSelectorOpNotIn:        policy.Policy_LabelSelector_LabelExpression_NOT_IN,
	metav1.LabelSelectorOpExists:       policy.Policy_LabelSelector_LabelExpression_EXISTS,
	metav1.LabelSelectorOpDoesNotExist: policy.Policy_LabelSelector_LabelExpression_DOES_NOT_EXIST,
}

// convertSelector distinguishes nil, which selects nothing, from the empty selector, which selects
// everything. An unknown operator becomes "IN ()", which matches nothing.
func convertSelector(s *metav1.LabelSelector) *policy.Policy_LabelSelector {
	if s == nil {
		return nil
	}
	out := &policy.Policy_LabelSelector{MatchLabel: policyLabels(s.MatchLabels)}
	for _, e := range s.MatchExpressions {
		expression := &policy.Policy_LabelSelector_LabelExpression{Key: e.Key}
		if operator, known := operators[e.Operator]; known {
			expression.Operator, expression.Value = operator, e.Values
		}
		out.MatchExpression = append(out.MatchExpression, expression)
	}
	return out
}

func convertPeers(peers []networkingv1.NetworkPolicyPeer) []*policy.Policy_Peer {
	var out []*policy.Policy_Peer
	for _, p := range peers {
		peer := &policy.Policy_Peer{Pods: convertSelector(p.PodSelector), Namespaces: convertSelector(p.NamespaceSelector)}
		if p.IPBlock != nil {
			peer.IpBlock = &policy.Policy_Peer_IPBlock{Cidr: p.IPBlock.CIDR, Except: p.IPBlock.Except}
		}
		out = append(out, peer)
	}
	return out
}

func convertPolicyPorts(ports []networkingv1.NetworkPolicyPort) []*policy.Policy_Port {
	var out []*policy.Policy_Port
	for _, p := range ports {
		port := &policy.Policy_Port{Protocol: policyProtocol(p.Protocol), EndPort: endPort(p.EndPort)}
		switch {
		case p.Port == nil:
		case p.Port.Type == intstr.String:
			port.Port = &policy.Policy_Port_PortNameOrNumber{Type: policy.Policy_Port_PortNameOrNumber_NAME, Name: p.Port.StrVal}
		default:
			port.Port = &policy.Policy_Port_PortNameOrNumber{Number: p.Port.IntVal}
		}
		out = append(out, port)
	}
	return out
}

// endPort returns -1 for the invalid 0, and 0 if unset.
func endPort(p *int32) int32 {
	switch {
	case p == nil:
		return 0
	case *p == 0:
		return -1
	}
	return *p
}

func policyProtocol(p *corev1.Protocol) policy.Policy_Port_Protocol {
	if p == nil {
		return policy.Policy_Port_TCP
	}
	switch *p {
	case "", corev1.ProtocolTCP:
		return policy.Policy_Port_TCP
	case corev1.ProtocolUDP:
		return policy.Policy_Port_UDP
	case corev1.ProtocolSCTP:
		return policy.Policy_Port_SCTP
	}
	return policy.Policy_Port_OTHER
}

func trimPolicy(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: trimPolicyMeta(&p.ObjectMeta), Spec: p.Spec}
}

// trimPolicyMeta keeps the managed field entry with the time of the last change.
func trimPolicyMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := trimMeta(m)
	if last := lastChange(m); last != nil {
		out.ManagedFields = []metav1.ManagedFieldsEntry{{Time: last}}
	}
	return out
}

// lastChange returns the time of creation or of the last change except of the status, or nil.
func lastChange(m *metav1.ObjectMeta) (last *metav1.Time) {
	for _, f := range m.ManagedFields {
		if f.Subresource == "" && f.Time != nil && (last == nil || last.Before(f.Time)) {
			last = f.Time
		}
	}
	return last
}

func changeTime(m *metav1.ObjectMeta) string {
	if last := lastChange(m); last != nil {
		return last.UTC().Format(time.RFC3339)
	}
	return ""
}
