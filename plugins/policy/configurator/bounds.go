package configurator

import (
	"fmt"
	"slices"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
)

// MaxParts limits the peers, networks, exceptions and ports of a policy and of its lists. A larger
// policy fails closed, so that it cannot exhaust the agent.
const MaxParts = 16_384

const maxExceptions = 1024

const tooLarge = "the policy has %d peers, networks, exceptions and ports, but at most %d are allowed: split it, or use larger networks and ranges; "

func partsOf(p *policy.Policy) (n int) {
	count := func(peers []*policy.Policy_Peer, ports []*policy.Policy_Port) {
		n += 1 + len(peers) + len(ports)
		for _, peer := range peers {
			n += len(peer.GetIpBlock().GetExcept())
		}
	}
	for _, r := range p.GetIngressRule() {
		count(r.GetFrom(), r.GetPort())
	}
	for _, r := range p.GetEgressRule() {
		count(r.GetTo(), r.GetPort())
	}
	return n
}

func clusterPartsOf(p *policy.ClusterPolicy) (n int) {
	for _, rules := range [][]*policy.ClusterPolicy_Rule{p.GetIngress(), p.GetEgress()} {
		for _, r := range rules {
			n += 1 + len(r.GetPeer()) + len(r.GetPort())
			for _, peer := range r.GetPeer() {
				n += len(peer.GetNetworks())
			}
		}
	}
	return n
}

// size exceeds the size of the policy, because exceptions split a network into many.
func (l *Lists) size() (n int) {
	for _, list := range []*filter.AccessList{l.Ingress, l.Egress} {
		for _, r := range list.GetRules() {
			n += 1 + len(r.GetNetworks()) + len(r.GetAddressSets()) + len(r.GetPorts()) + len(r.GetEndpointSets())
		}
	}
	return n
}

// closed returns lists that isolate the pods of a too large policy and allow nothing.
func (w *writer) closed(p *policy.Policy, parts int) *Lists {
	closed := *w
	closed.out.Peers, closed.out.Ports, closed.out.Ingress, closed.out.Egress = nil, nil, nil, nil
	closed.out.Invalid = slices.Insert(slices.Clone(w.out.Invalid), 0, fmt.Sprintf(tooLarge+"it isolates its pods and allows nothing", parts, MaxParts))
	ingress, egress := Isolates(p)
	if ingress {
		closed.out.Ingress = w.list(filter.AccessList_INGRESS)
	}
	if egress {
		closed.out.Egress = w.list(filter.AccessList_EGRESS)
	}
	return &closed.out
}

// closedCluster returns lists that accept nothing, and deny everything in each direction with a
// Deny or Pass rule.
func (w *writer) closedCluster(p *policy.ClusterPolicy, parts int) *Lists {
	closed := *w
	closed.out.Peers, closed.out.Nodes, closed.out.Ports = nil, nil, nil
	closed.out.Invalid = slices.Insert(slices.Clone(w.out.Invalid), 0,
		fmt.Sprintf(tooLarge+"it denies all in each direction in which it has a rule that denies or passes, and accepts nothing", parts, MaxParts))
	deny := func(direction filter.AccessList_Direction, rules []*policy.ClusterPolicy_Rule) *filter.AccessList {
		for i, r := range rules {
			if r.GetAction() != policy.ClusterPolicy_ACCEPT {
				list := w.list(direction)
				list.Rules = []*filter.AccessList_Rule{{Name: ruleField(direction, i), Action: filter.AccessList_DENY}}
				return list
			}
		}
		return nil
	}
	closed.out.Ingress = deny(filter.AccessList_INGRESS, p.GetIngress())
	closed.out.Egress = deny(filter.AccessList_EGRESS, p.GetEgress())
	return &closed.out
}
