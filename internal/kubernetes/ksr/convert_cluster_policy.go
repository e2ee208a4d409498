package ksr

import (
	"fmt"

	"github.com/contiv/contiv/api/contiv/policy"
	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var tiers = map[string]policy.ClusterPolicy_Tier{cnp.Admin: policy.ClusterPolicy_ADMIN, cnp.Baseline: policy.ClusterPolicy_BASELINE}

// convertClusterPolicy marks unknown parts so that agents see them; see policy.ClusterPolicy.
func convertClusterPolicy(p *cnp.ClusterNetworkPolicy) proto.Message {
	tier, known := tiers[p.Spec.Tier]
	out := &policy.ClusterPolicy{Name: p.Name, Tier: tier, Priority: p.Spec.Priority, ChangeTime: changeTime(&p.ObjectMeta)}
	if !known {
		out.Invalid = append(out.Invalid, fmt.Sprintf("spec.tier: %.64q is none of %s and %s; only the Deny rules hold, in the tier %s", p.Spec.Tier, cnp.Admin, cnp.Baseline, cnp.Admin))
	}
	if subject := clusterPeer(p.Spec.Subject); subject.GetPods() != nil {
		out.Subject = subject.GetPods()
	}
	for i, r := range p.Spec.Ingress {
		rule := clusterRule(r.Name, r.Action, r.From, r.Protocols)
		for j, peer := range rule.GetPeer() {
			if peer.GetPods() == nil {
				rule.Peer[j] = new(policy.ClusterPolicy_Peer)
			}
		}
		if out.Invalid = noteAction(out.Invalid, fmt.Sprintf("spec.ingress[%d]", i), r.Action); known || rule.GetAction() == policy.ClusterPolicy_DENY {
			out.Ingress = append(out.Ingress, rule)
		}
	}
	for i, r := range p.Spec.Egress {
		rule := clusterRule(r.Name, r.Action, r.To, r.Protocols)
		if out.Invalid = noteAction(out.Invalid, fmt.Sprintf("spec.egress[%d]", i), r.Action); known || rule.GetAction() == policy.ClusterPolicy_DENY {
			out.Egress = append(out.Egress, rule)
		}
	}
	return out
}

var actions = map[string]policy.ClusterPolicy_Action{
	cnp.Accept: policy.ClusterPolicy_ACCEPT, cnp.Deny: policy.ClusterPolicy_DENY, cnp.Pass: policy.ClusterPolicy_PASS,
}

func noteAction(invalid []string, field, action string) []string {
	if _, known := actions[action]; known {
		return invalid
	}
	return append(invalid, fmt.Sprintf("%s.action: %.64q is none of %s, %s and %s; the rule denies", field, action, cnp.Accept, cnp.Deny, cnp.Pass))
}

// clusterRule converts an unknown action to deny. It marks a rule without peers, which the API
// forbids, as invalid.
func clusterRule(name, action string, peers []cnp.Peer, protocols []cnp.Protocol) *policy.ClusterPolicy_Rule {
	rule := &policy.ClusterPolicy_Rule{Name: name, Action: policy.ClusterPolicy_DENY}
	if known, ok := actions[action]; ok {
		rule.Action = known
	}
	for _, p := range peers {
		rule.Peer = append(rule.Peer, clusterPeer(p))
	}
	if len(peers) == 0 {
		rule.Peer = append(rule.Peer, new(policy.ClusterPolicy_Peer))
	}
	for _, p := range protocols {
		rule.Port = append(rule.Port, clusterPort(p))
	}
	return rule
}

// clusterPeer returns an empty peer for an unknown or unsupported kind, or for several kinds.
func clusterPeer(p cnp.Peer) *policy.ClusterPolicy_Peer {
	peer := new(policy.ClusterPolicy_Peer)
	switch {
	case count(p.Namespaces != nil, p.Pods != nil, p.Nodes != nil, len(p.Networks) > 0, len(p.DomainNames) > 0) != 1:
	case p.Namespaces != nil:
		peer.Pods = &policy.ClusterPolicy_Pods{Namespaces: convertSelector(p.Namespaces), Pods: convertSelector(&metav1.LabelSelector{})}
	case p.Pods != nil:
		peer.Pods = &policy.ClusterPolicy_Pods{Namespaces: convertSelector(&p.Pods.NamespaceSelector), Pods: convertSelector(&p.Pods.PodSelector)}
	case p.Nodes != nil:
		peer.Nodes = convertSelector(p.Nodes)
	default:
		peer.Networks = p.Networks
	}
	return peer
}

func clusterPort(p cnp.Protocol) *policy.ClusterPolicy_Port {
	port := &policy.ClusterPolicy_Port{Name: p.DestinationNamedPort}
	if count(p.TCP != nil, p.UDP != nil, p.SCTP != nil, port.Name != "") != 1 {
		return &policy.ClusterPolicy_Port{Protocol: policy.Policy_Port_OTHER}
	}
	destination := p.TCP
	switch {
	case p.UDP != nil:
		port.Protocol, destination = policy.Policy_Port_UDP, p.UDP
	case p.SCTP != nil:
		port.Protocol, destination = policy.Policy_Port_SCTP, p.SCTP
	}
	if destination == nil || destination.DestinationPort == nil {
		return port
	}
	d := destination.DestinationPort
	if port.First, port.Last = d.Number, d.Number; d.Range != nil {
		port.First, port.Last = d.Range.Start, d.Range.End
	}
	if count(d.Number != 0, d.Range != nil) != 1 || port.First < 1 || port.First > port.Last || port.Last > 65535 {
		port.Protocol = policy.Policy_Port_OTHER
	}
	return port
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func trimClusterPolicy(p *cnp.ClusterNetworkPolicy) *cnp.ClusterNetworkPolicy {
	return &cnp.ClusterNetworkPolicy{ObjectMeta: trimPolicyMeta(&p.ObjectMeta), Spec: p.Spec}
}
