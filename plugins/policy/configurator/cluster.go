package configurator

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/kubeaddr"
	"github.com/contiv/contiv/plugins/policy/cache"
)

// ClusterPolicy translates a cluster network policy into lists. It fails closed: an invalid rule that
// accepts matches nothing, and one that denies or passes becomes one that denies everything.
func ClusterPolicy(p *policy.ClusterPolicy) *Lists {
	w := writer{name: p.GetName(), peers: map[string]bool{}, ports: map[NamedPort]bool{}}
	w.out.Priority, w.out.Name = p.GetPriority(), p.GetName()
	if p.GetTier() == policy.ClusterPolicy_BASELINE {
		w.out.Tier = Baseline
	}
	if p.GetSubject() == nil { // nobody
		return &w.out
	}
	w.out.Subjects = clusterPods(p.GetSubject())
	w.out.Ingress = w.clusterList(filter.AccessList_INGRESS, p.GetIngress())
	w.out.Egress = w.clusterList(filter.AccessList_EGRESS, p.GetEgress())
	return &w.out
}

func clusterPods(p *policy.ClusterPolicy_Pods) Pods {
	return Pods{Scope: cache.Scope{Namespaces: cache.SelectorOf(p.GetNamespaces())}, Selector: cache.SelectorOf(p.GetPods())}
}

// Denies reports whether a list may deny something.
func Denies(list *filter.AccessList) bool {
	for _, r := range list.GetRules() {
		if r.GetAction() == filter.AccessList_DENY {
			return true
		}
	}
	return false
}

// clusterList returns nil if there are no rules.
func (w *writer) clusterList(direction filter.AccessList_Direction, rules []*policy.ClusterPolicy_Rule) *filter.AccessList {
	list := w.list(direction)
	for i, r := range rules {
		if rule := w.clusterRule(r); rule != nil {
			if rule.Name == "" {
				rule.Name = fmt.Sprintf("%s[%d]", map[bool]string{false: "ingress", true: "egress"}[direction == filter.AccessList_EGRESS], i)
			}
			list.Rules = append(list.Rules, rule)
		}
	}
	if len(list.GetRules()) == 0 {
		return nil
	}
	return list
}

var actions = map[policy.ClusterPolicy_Action]filter.AccessList_Action{
	policy.ClusterPolicy_ACCEPT: filter.AccessList_ALLOW, policy.ClusterPolicy_DENY: filter.AccessList_DENY, policy.ClusterPolicy_PASS: filter.AccessList_PASS,
}

// clusterRule returns nil for a rule that nothing can match.
func (w *writer) clusterRule(rule *policy.ClusterPolicy_Rule) *filter.AccessList_Rule {
	action, known := actions[rule.GetAction()]
	if !known {
		action = filter.AccessList_DENY
	}
	r := &filter.AccessList_Rule{Name: rule.GetName(), Action: action}
	var networks []netip.Prefix
	for _, peer := range rule.GetPeer() {
		switch {
		case peer.GetPods() != nil:
			r.AddressSets = append(r.AddressSets, w.refer(clusterPods(peer.GetPods())))
		case peer.GetNodes() != nil:
			r.AddressSets = append(r.AddressSets, w.referNodes(cache.SelectorOf(peer.GetNodes())))
		}
		for _, text := range peer.GetNetworks() {
			if network, err := kubeaddr.ParseNetwork(text); err == nil {
				networks = append(networks, network)
			}
		}
	}
	for _, network := range Disjoint(networks) {
		r.Networks = append(r.Networks, network.String())
	}
	for _, port := range rule.GetPort() {
		w.clusterPort(r, port)
	}
	noPeer := len(rule.GetPeer()) > 0 && len(r.AddressSets) == 0 && len(r.Networks) == 0
	noPort := len(rule.GetPort()) > 0 && len(r.Ports) == 0 && len(r.EndpointSets) == 0
	switch {
	case !noPeer && !noPort:
	case action == filter.AccessList_ALLOW:
		return nil
	default:
		return &filter.AccessList_Rule{Name: rule.GetName(), Action: filter.AccessList_DENY}
	}
	r.AddressSets = unique(r.AddressSets)
	r.EndpointSets = unique(r.EndpointSets)
	return r
}

func (w *writer) referNodes(selector cache.Selector) string {
	name := NodesSet(selector)
	if !w.peers[name] {
		w.peers[name] = true
		w.out.Nodes = append(w.out.Nodes, selector)
	}
	return name
}

func (w *writer) clusterPort(r *filter.AccessList_Rule, port *policy.ClusterPolicy_Port) {
	protocol, known := protocols[port.GetProtocol()]
	first, last := port.GetFirst(), port.GetLast()
	switch {
	case port.GetName() != "":
		for _, protocol := range protocols {
			w.named(r, NamedPort{protocol, port.GetName()})
		}
	case !known || first < 0 || last > 65535 || first > last || first == 0 && last != 0:
	default:
		r.Ports = append(r.Ports, &filter.AccessList_Ports{Protocol: protocol, First: uint32(first), Last: uint32(last)})
	}
}
