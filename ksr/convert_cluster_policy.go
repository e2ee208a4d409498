package ksr

import (
	"github.com/contiv/contiv/api/contiv/policy"
	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/kubeaddr"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var tiers = map[string]policy.ClusterPolicy_Tier{cnp.Admin: policy.ClusterPolicy_ADMIN, cnp.Baseline: policy.ClusterPolicy_BASELINE}

// convertClusterPolicy returns nil for policies of unknown tiers.
func convertClusterPolicy(p *cnp.ClusterNetworkPolicy) proto.Message {
	tier, known := tiers[p.Spec.Tier]
	if !known {
		return nil
	}
	out := &policy.ClusterPolicy{Name: p.Name, Tier: tier, Priority: p.Spec.Priority, ChangeTime: changeTime(&p.ObjectMeta)}
	if subject, ok := clusterPeer(p.Spec.Subject); ok {
		out.Subject = subject.GetPods()
	}
	for _, r := range p.Spec.Ingress {
		// Nodes and networks cannot be sources: the API has them for egress only.
		onlyPods := func(peer *policy.ClusterPolicy_Peer) bool { return peer.GetPods() != nil }
		if rule := clusterRule(r.Name, r.Action, r.From, r.Protocols, onlyPods); rule != nil {
			out.Ingress = append(out.Ingress, rule)
		}
	}
	for _, r := range p.Spec.Egress {
		anyPeer := func(*policy.ClusterPolicy_Peer) bool { return true }
		if rule := clusterRule(r.Name, r.Action, r.To, r.Protocols, anyPeer); rule != nil {
			out.Egress = append(out.Egress, rule)
		}
	}
	return out
}

// clusterRule fails closed: nil stands for a rule that accepts nothing.
func clusterRule(name, action string, peers []cnp.Peer, protocols []cnp.Protocol, allowed func(*policy.ClusterPolicy_Peer) bool) *policy.ClusterPolicy_Rule {
	rule, ok := &policy.ClusterPolicy_Rule{Name: name}, len(peers) > 0
	for _, p := range peers {
		peer, known := clusterPeer(p)
		ok = ok && known && allowed(peer)
		rule.Peer = append(rule.Peer, peer)
	}
	for _, p := range protocols {
		port, known := clusterPort(p)
		ok = ok && known
		rule.Port = append(rule.Port, port)
	}
	switch action {
	case cnp.Accept:
		if !ok {
			return nil
		}
		rule.Action = policy.ClusterPolicy_ACCEPT
		return rule
	case cnp.Pass:
		rule.Action = policy.ClusterPolicy_PASS
	default:
		rule.Action = policy.ClusterPolicy_DENY
	}
	if !ok {
		return &policy.ClusterPolicy_Rule{Name: name, Action: policy.ClusterPolicy_DENY}
	}
	return rule
}

// clusterPeer returns ok=false for an unknown kind of peer.
func clusterPeer(p cnp.Peer) (peer *policy.ClusterPolicy_Peer, ok bool) {
	switch peer = new(policy.ClusterPolicy_Peer); {
	case count(p.Namespaces != nil, p.Pods != nil, p.Nodes != nil, len(p.Networks) > 0, len(p.DomainNames) > 0) != 1:
		return peer, false
	case p.Namespaces != nil:
		peer.Pods = &policy.ClusterPolicy_Pods{Namespaces: convertSelector(p.Namespaces), Pods: convertSelector(&metav1.LabelSelector{})}
	case p.Pods != nil:
		peer.Pods = &policy.ClusterPolicy_Pods{Namespaces: convertSelector(&p.Pods.NamespaceSelector), Pods: convertSelector(&p.Pods.PodSelector)}
	case p.Nodes != nil:
		peer.Nodes = convertSelector(p.Nodes)
	case len(p.DomainNames) > 0:
		return peer, false
	}
	for _, text := range p.Networks {
		if _, err := kubeaddr.ParseNetwork(text); err != nil {
			return peer, false
		}
	}
	peer.Networks = p.Networks
	return peer, true
}

func clusterPort(p cnp.Protocol) (port *policy.ClusterPolicy_Port, ok bool) {
	port = &policy.ClusterPolicy_Port{Name: p.DestinationNamedPort}
	if count(p.TCP != nil, p.UDP != nil, p.SCTP != nil, port.Name != "") != 1 {
		return port, false
	}
	destination := p.TCP
	switch {
	case p.UDP != nil:
		port.Protocol, destination = policy.Policy_Port_UDP, p.UDP
	case p.SCTP != nil:
		port.Protocol, destination = policy.Policy_Port_SCTP, p.SCTP
	}
	if destination == nil || destination.DestinationPort == nil {
		return port, true
	}
	d := destination.DestinationPort
	if port.First, port.Last = d.Number, d.Number; d.Range != nil {
		port.First, port.Last = d.Range.Start, d.Range.End
	}
	ok = count(d.Number != 0, d.Range != nil) == 1 && port.First >= 1 && port.First <= port.Last && port.Last <= 65535
	return port, ok
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
