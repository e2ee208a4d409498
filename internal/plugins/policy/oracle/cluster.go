package oracle

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
)

// The first matching rule decides, unless it is a Pass rule.
func (c Cluster) tier(tier policy.ClusterPolicy_Tier, who *pod.Pod, conn Connection, ingress bool) (accepted, decided bool) {
	var asked []*policy.ClusterPolicy
	for _, p := range c.ClusterPolicies {
		if p.GetTier() == tier && who != nil && !who.GetHostNetwork() && p.GetSubject() != nil && c.isPod(p.GetSubject(), who) {
			asked = append(asked, p)
		}
	}
	slices.SortFunc(asked, func(a, b *policy.ClusterPolicy) int {
		if a.GetPriority() != b.GetPriority() {
			return int(a.GetPriority()) - int(b.GetPriority())
		}
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	for _, p := range asked {
		rules, peer := p.GetEgress(), conn.To
		if ingress {
			rules, peer = p.GetIngress(), conn.From
		}
		for _, r := range rules {
			if c.isClusterPeer(r.GetPeer(), peer) && isClusterPort(r.GetPort(), conn) {
				return r.GetAction() == policy.ClusterPolicy_ACCEPT, r.GetAction() != policy.ClusterPolicy_PASS
			}
		}
	}
	return false, false
}

func (c Cluster) isPod(s *policy.ClusterPolicy_Pods, who *pod.Pod) bool {
	return c.inNamespaces(s.GetNamespaces(), who.GetNamespace()) && selects(s.GetPods(), podLabels(who))
}

func (c Cluster) isClusterPeer(peers []*policy.ClusterPolicy_Peer, who End) bool {
	if len(peers) == 0 {
		return true
	}
	for _, peer := range peers {
		switch {
		case peer.GetPods() != nil:
			if who.Pod != nil && !who.Pod.GetHostNetwork() && !finished(who.Pod) && c.isPod(peer.GetPods(), who.Pod) {
				return true
			}
		case peer.GetNodes() != nil:
			for _, n := range c.Nodes {
				for _, a := range n.GetAddresses() {
					if a.GetAddress() == who.Addr.String() && selects(peer.GetNodes(), n.GetLabels()) {
						return true
					}
				}
			}
		default:
			for _, network := range peer.GetNetworks() {
				if netip.MustParsePrefix(network).Contains(who.Addr) {
					return true
				}
			}
		}
	}
	return false
}

func isClusterPort(ports []*policy.ClusterPolicy_Port, conn Connection) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		switch {
		case p.GetName() != "":
			if hasPort(conn.To.Pod, p.GetName(), conn) {
				return true
			}
		case p.GetProtocol().String() != conn.Protocol:
		case p.GetFirst() == 0 || conn.Port >= int(p.GetFirst()) && conn.Port <= int(p.GetLast()):
			return true
		}
	}
	return false
}

// MayBeDenied reports whether a policy with a Deny rule may select a pod of an unknown namespace.
func (c Cluster) MayBeDenied(who *pod.Pod, ingress bool) bool {
	for _, n := range c.Namespaces {
		if n.GetName() == who.GetNamespace() {
			return false
		}
	}
	for _, p := range c.ClusterPolicies {
		s := p.GetSubject()
		if s == nil || len(s.GetNamespaces().GetMatchLabel())+len(s.GetNamespaces().GetMatchExpression()) == 0 || !selects(s.GetPods(), podLabels(who)) {
			continue
		}
		rules := p.GetEgress()
		if ingress {
			rules = p.GetIngress()
		}
		for _, r := range rules {
			if r.GetAction() == policy.ClusterPolicy_DENY {
				return true
			}
		}
	}
	return false
}
