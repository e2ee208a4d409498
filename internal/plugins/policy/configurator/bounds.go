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

const (
	isolatesAll = "it isolates its pods and allows nothing"
	deniesAll   = "it denies all in each direction in which it has a rule that denies or passes, and accepts nothing"
)

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

// Size exceeds the size of the policy, because exceptions split a network into many.
func (l *Lists) Size() (n int) {
	for _, list := range []*filter.AccessList{l.Ingress, l.Egress} {
		for _, r := range list.GetRules() {
			n += 1 + len(r.GetNetworks()) + len(r.GetAddressSets()) + len(r.GetPorts()) + len(r.GetEndpointSets())
		}
	}
	return n
}

const noRoom = "the policy has %d peers, networks, exceptions and ports, and the policies of the node have no room for it: of all together, %d " +
	"of these parts and %d selected pods are taken, the smallest policies first; "

// Refused returns the lists of a policy beyond the limits of the node, like those of a policy that
// is too large.
func (l *Lists) Refused(size, maxParts, maxPods int) *Lists {
	effect := isolatesAll
	if l.Tier != Namespaced {
		effect = deniesAll
	}
	closed := l.without(fmt.Sprintf(noRoom+effect, size, maxParts, maxPods))
	closed.Ingress, closed.Egress = closedList(l.Ingress, l.Tier), closedList(l.Egress, l.Tier)
	return closed
}

// without returns a copy without rules and their selections, and with the reason.
func (l *Lists) without(reason string) *Lists {
	closed := *l
	closed.Peers, closed.Nodes, closed.Ports, closed.Ingress, closed.Egress = nil, nil, nil, nil, nil
	closed.Invalid = slices.Insert(slices.Clone(l.Invalid), 0, reason)
	return &closed
}

func closedList(list *filter.AccessList, tier Tier) *filter.AccessList {
	if list == nil {
		return nil
	}
	closed := &filter.AccessList{Name: list.GetName(), Description: list.GetDescription(), Direction: list.GetDirection()}
	if tier == Namespaced {
		return closed
	}
	for _, r := range list.GetRules() {
		if r.GetAction() != filter.AccessList_ALLOW {
			closed.Rules = []*filter.AccessList_Rule{{Name: r.GetName(), Action: filter.AccessList_DENY}}
			return closed
		}
	}
	return nil
}

// closed returns lists that isolate the pods of a too large policy and allow nothing.
func (w *writer) closed(p *policy.Policy, parts int) *Lists {
	closed := w.out.without(fmt.Sprintf(tooLarge+isolatesAll, parts, MaxParts))
	ingress, egress := Isolates(p)
	if ingress {
		closed.Ingress = w.list(filter.AccessList_INGRESS)
	}
	if egress {
		closed.Egress = w.list(filter.AccessList_EGRESS)
	}
	return closed
}

// closedCluster returns lists that accept nothing, and deny everything in each direction with a
// Deny or Pass rule.
func (w *writer) closedCluster(p *policy.ClusterPolicy, parts int) *Lists {
	closed := w.out.without(fmt.Sprintf(tooLarge+deniesAll, parts, MaxParts))
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
	closed.Ingress = deny(filter.AccessList_INGRESS, p.GetIngress())
	closed.Egress = deny(filter.AccessList_EGRESS, p.GetEgress())
	return closed
}
