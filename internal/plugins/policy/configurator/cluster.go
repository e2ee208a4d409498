package configurator

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/policy/cache"
)

// ClusterPolicy translates a cluster network policy into lists. Its valid parts apply. Invalid
// peers and ports are reported in Invalid and fail closed: an Accept rule skips them, a Deny rule
// denies all peers or all ports instead, and a Pass rule denies them.
func ClusterPolicy(p *policy.ClusterPolicy) *Lists {
	w := writer{name: p.GetName(), peers: map[string]bool{}, ports: map[NamedPort]bool{}}
	w.out.Priority, w.out.Name = p.GetPriority(), p.GetName()
	if p.GetTier() == policy.ClusterPolicy_BASELINE {
		w.out.Tier = Baseline
	}
	for _, text := range p.GetInvalid() {
		w.invalid("%s", text)
	}
	if p.GetSubject() == nil {
		w.invalid("spec.subject: exactly one of namespaces and pods is required; the policy applies to no pod")
		return &w.out
	}
	subjects, err := clusterPods(p.GetSubject())
	if w.out.Subjects = subjects; err != nil {
		w.onlyDeny = true
		w.invalid("spec.subject: %v; the policy applies to all pods that the rest of the selector selects, with its Deny rules only", err)
	}
	if n := clusterPartsOf(p); n > MaxParts {
		return w.closedCluster(p, n)
	}
	w.out.Ingress = w.clusterList(filter.AccessList_INGRESS, p.GetIngress())
	w.out.Egress = w.clusterList(filter.AccessList_EGRESS, p.GetEgress())
	return &w.out
}

// With an error, the result lacks the invalid requirements.
func clusterPods(p *policy.ClusterPolicy_Pods) (Pods, error) {
	namespaces, err := cache.SelectorOf(p.GetNamespaces())
	if err != nil {
		err = fmt.Errorf("namespaceSelector: %w", err)
	}
	pods, podsErr := cache.SelectorOf(p.GetPods())
	if podsErr != nil && err == nil {
		err = fmt.Errorf("podSelector: %w", podsErr)
	}
	return Pods{Scope: cache.Scope{Namespaces: namespaces}, Selector: pods}, err
}

// Denies reports whether a list contains a Deny rule.
func Denies(list *filter.AccessList) bool {
	for _, r := range list.GetRules() {
		if r.GetAction() == filter.AccessList_DENY {
			return true
		}
	}
	return false
}

// clusterList returns nil if the list has no rules.
func (w *writer) clusterList(direction filter.AccessList_Direction, rules []*policy.ClusterPolicy_Rule) *filter.AccessList {
	list := w.list(direction)
	for i, r := range rules {
		field := ruleField(direction, i)
		for _, rule := range w.clusterRule("spec."+field, direction, r) {
			if w.onlyDeny && rule.GetAction() != filter.AccessList_DENY {
				continue
			}
			if rule.Name == "" {
				rule.Name = field
			}
			list.Rules = append(list.Rules, rule)
		}
	}
	if len(list.GetRules()) == 0 {
		return nil
	}
	return list
}

func ruleField(direction filter.AccessList_Direction, i int) string {
	if direction == filter.AccessList_EGRESS {
		return fmt.Sprintf("egress[%d]", i)
	}
	return fmt.Sprintf("ingress[%d]", i)
}

var actions = map[policy.ClusterPolicy_Action]filter.AccessList_Action{
	policy.ClusterPolicy_ACCEPT: filter.AccessList_ALLOW, policy.ClusterPolicy_DENY: filter.AccessList_DENY, policy.ClusterPolicy_PASS: filter.AccessList_PASS,
}

// clusterRule returns no rule if nothing can match, and two if a part of a Pass rule is denied.
func (w *writer) clusterRule(field string, direction filter.AccessList_Direction, rule *policy.ClusterPolicy_Rule) []*filter.AccessList_Rule {
	action, known := actions[rule.GetAction()]
	if !known {
		action = filter.AccessList_DENY
		w.invalid("%s.action: unknown; the rule denies", field)
	}
	effect := map[filter.AccessList_Action]string{
		filter.AccessList_ALLOW: "it is not accepted", filter.AccessList_DENY: "the rule denies all of them", filter.AccessList_PASS: "all others of the rule are denied",
	}[action]
	r := &filter.AccessList_Rule{Name: rule.GetName(), Action: action}
	allPeers := w.clusterPeers(r, field+map[bool]string{false: ".from", true: ".to"}[direction == filter.AccessList_EGRESS], effect, rule.GetPeer())
	allPorts := w.clusterPorts(r, field+".protocols", effect, rule.GetPort())
	matches := (len(rule.GetPeer()) == 0 || len(r.AddressSets)+len(r.Networks) > 0) && (len(rule.GetPort()) == 0 || len(r.Ports)+len(r.EndpointSets) > 0)
	denied := &filter.AccessList_Rule{Name: rule.GetName(), Action: filter.AccessList_DENY, AddressSets: r.AddressSets, Networks: r.Networks, Ports: r.Ports, EndpointSets: r.EndpointSets}
	if allPeers {
		denied.AddressSets, denied.Networks = nil, nil
	}
	if allPorts {
		denied.Ports, denied.EndpointSets = nil, nil
	}
	switch closed := allPeers || allPorts; {
	case closed && action == filter.AccessList_DENY, closed && action == filter.AccessList_PASS && !matches:
		return []*filter.AccessList_Rule{denied}
	case closed && action == filter.AccessList_PASS:
		return []*filter.AccessList_Rule{r, denied}
	case !matches:
		return nil
	}
	return []*filter.AccessList_Rule{r}
}

// clusterPeers reports whether a peer is invalid.
func (w *writer) clusterPeers(r *filter.AccessList_Rule, field, effect string, peers []*policy.ClusterPolicy_Peer) (unknown bool) {
	var networks []netip.Prefix
	for i, peer := range peers {
		var err error
		switch {
		case peer.GetPods() != nil:
			var pods Pods
			if pods, err = clusterPods(peer.GetPods()); err == nil {
				r.AddressSets = append(r.AddressSets, w.refer(pods))
			}
		case peer.GetNodes() != nil:
			var nodes cache.Selector
			if nodes, err = cache.SelectorOf(peer.GetNodes()); err == nil {
				r.AddressSets = append(r.AddressSets, w.referNodes(nodes))
			}
		case len(peer.GetNetworks()) == 0:
			err = fmt.Errorf("a peer of an unknown kind, of several kinds or of one that is not supported here")
		}
		for j, text := range peer.GetNetworks() {
			network, networkErr := kubeaddr.ParseNetwork(text)
			if networkErr != nil {
				unknown = true
				w.invalid("%s[%d].networks[%d]: %v; %s", field, i, j, networkErr, effect)
				continue
			}
			networks = append(networks, network)
		}
		if err != nil {
			unknown = true
			w.invalid("%s[%d]: %v; %s", field, i, err, effect)
		}
	}
	for _, network := range Disjoint(networks) {
		r.Networks = append(r.Networks, network.String())
	}
	r.AddressSets = unique(r.AddressSets)
	return unknown
}

// clusterPorts reports whether a port is invalid.
func (w *writer) clusterPorts(r *filter.AccessList_Rule, field, effect string, ports []*policy.ClusterPolicy_Port) (unknown bool) {
	for i, port := range ports {
		protocol, known := protocols[port.GetProtocol()]
		first, last := port.GetFirst(), port.GetLast()
		switch {
		case port.GetName() != "":
			for _, protocol := range protocols {
				w.named(r, NamedPort{protocol, port.GetName()})
			}
		case !known || first < 0 || last > 65535 || first > last || first == 0 && last != 0:
			unknown = true
			w.invalid("%s[%d]: an unknown protocol, or no ports from 1 to 65535; %s", field, i, effect)
		default:
			r.Ports = append(r.Ports, &filter.AccessList_Ports{Protocol: protocol, First: uint32(first), Last: uint32(last)})
		}
	}
	r.EndpointSets = unique(r.EndpointSets)
	return unknown
}

func (w *writer) referNodes(selector cache.Selector) string {
	name := NodesSet(selector)
	if !w.peers[name] {
		w.peers[name] = true
		w.out.Nodes = append(w.out.Nodes, selector)
	}
	return name
}
