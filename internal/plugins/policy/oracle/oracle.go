// Package oracle evaluates connections as the Kubernetes API documentation describes them, by
// looping over all objects. Tests compare the implementation with it; the two share no code.
package oracle

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
)

// Cluster is the state of Kubernetes.
type Cluster struct {
	Pods       []*pod.Pod
	Namespaces []*namespace.Namespace
	Policies   []*policy.Policy
	Nodes      []*node.Node
	// ClusterPolicies of equal tier and priority are evaluated in the order of their names.
	ClusterPolicies []*policy.ClusterPolicy
}

// End is an end of a connection: a pod, or just an address.
type End struct {
	Pod  *pod.Pod // nil: a host address, or unknown
	Addr netip.Addr
}

// Connection is a connection from a client to a port of a destination.
type Connection struct {
	From, To End
	// Protocol is TCP, UDP, SCTP, or a protocol without ports.
	Protocol string
	Port     int
}

// Allowed reports whether policies let the connection be opened.
func (c Cluster) Allowed(conn Connection) bool {
	if conn.From.Addr == conn.To.Addr {
		return true
	}
	return c.Egress(conn) && c.Ingress(conn)
}

// Ingress reports whether the policies of the destination allow the connection.
func (c Cluster) Ingress(conn Connection) bool {
	if accepted, decided := c.tier(policy.ClusterPolicy_ADMIN, conn.To.Pod, conn, true); decided {
		return accepted
	}
	isolated := false
	for _, p := range c.Policies {
		if p.GetPolicyType() == policy.Policy_EGRESS || !subject(p, conn.To.Pod) {
			continue
		}
		isolated = true
		for _, r := range p.GetIngressRule() {
			if c.isPeer(p, r.GetFrom(), conn.From) && isPort(r.GetPort(), conn) {
				return true
			}
		}
	}
	if isolated {
		return false
	}
	accepted, decided := c.tier(policy.ClusterPolicy_BASELINE, conn.To.Pod, conn, true)
	return accepted || !decided
}

// Egress reports whether the policies of the client allow the connection.
func (c Cluster) Egress(conn Connection) bool {
	if accepted, decided := c.tier(policy.ClusterPolicy_ADMIN, conn.From.Pod, conn, false); decided {
		return accepted
	}
	isolated := false
	for _, p := range c.Policies {
		about := p.GetPolicyType() == policy.Policy_EGRESS || p.GetPolicyType() == policy.Policy_INGRESS_AND_EGRESS ||
			p.GetPolicyType() == policy.Policy_DEFAULT && len(p.GetEgressRule()) > 0
		if !about || !subject(p, conn.From.Pod) {
			continue
		}
		isolated = true
		for _, r := range p.GetEgressRule() {
			if c.isPeer(p, r.GetTo(), conn.To) && isPort(r.GetPort(), conn) {
				return true
			}
		}
	}
	if isolated {
		return false
	}
	accepted, decided := c.tier(policy.ClusterPolicy_BASELINE, conn.From.Pod, conn, false)
	return accepted || !decided
}

// Pods on the host network are never subjects.
func subject(p *policy.Policy, who *pod.Pod) bool {
	return who != nil && !who.GetHostNetwork() && who.GetNamespace() == p.GetNamespace() && selects(p.GetPods(), podLabels(who))
}

func (c Cluster) isPeer(p *policy.Policy, peers []*policy.Policy_Peer, who End) bool {
	if len(peers) == 0 {
		return true
	}
	for _, peer := range peers {
		switch {
		case peer.GetIpBlock() != nil:
			if inBlock(peer.GetIpBlock(), who.Addr) {
				return true
			}
		case who.Pod == nil || who.Pod.GetHostNetwork() || finished(who.Pod):
		case peer.GetNamespaces() == nil && peer.GetPods() == nil:
		case peer.GetNamespaces() == nil:
			if who.Pod.GetNamespace() == p.GetNamespace() && selects(peer.GetPods(), podLabels(who.Pod)) {
				return true
			}
		default:
			if c.inNamespaces(peer.GetNamespaces(), who.Pod.GetNamespace()) && (peer.GetPods() == nil || selects(peer.GetPods(), podLabels(who.Pod))) {
				return true
			}
		}
	}
	return false
}

func finished(p *pod.Pod) bool {
	return p.GetPhase() == pod.Pod_SUCCEEDED || p.GetPhase() == pod.Pod_FAILED
}

// Only a selector of all namespaces matches an unknown namespace.
func (c Cluster) inNamespaces(s *policy.Policy_LabelSelector, name string) bool {
	for _, ns := range c.Namespaces {
		if ns.GetName() == name {
			labels := map[string]string{}
			for _, l := range ns.GetLabel() {
				labels[l.GetKey()] = l.GetValue()
			}
			return selects(s, labels)
		}
	}
	return len(s.GetMatchLabel()) == 0 && len(s.GetMatchExpression()) == 0
}

func podLabels(p *pod.Pod) map[string]string {
	labels := map[string]string{}
	for _, l := range p.GetLabel() {
		labels[l.GetKey()] = l.GetValue()
	}
	return labels
}

func selects(s *policy.Policy_LabelSelector, labels map[string]string) bool {
	for _, l := range s.GetMatchLabel() {
		if value, ok := labels[l.GetKey()]; !ok || value != l.GetValue() {
			return false
		}
	}
	for _, e := range s.GetMatchExpression() {
		value, ok := labels[e.GetKey()]
		listed := ok && slices.Contains(e.GetValue(), value)
		switch e.GetOperator() {
		case policy.Policy_LabelSelector_LabelExpression_IN:
			if !listed {
				return false
			}
		case policy.Policy_LabelSelector_LabelExpression_NOT_IN:
			if listed {
				return false
			}
		case policy.Policy_LabelSelector_LabelExpression_EXISTS:
			if !ok {
				return false
			}
		case policy.Policy_LabelSelector_LabelExpression_DOES_NOT_EXIST:
			if ok {
				return false
			}
		}
	}
	return true
}

func inBlock(b *policy.Policy_Peer_IPBlock, addr netip.Addr) bool {
	if !netip.MustParsePrefix(b.GetCidr()).Contains(addr) {
		return false
	}
	for _, except := range b.GetExcept() {
		if netip.MustParsePrefix(except).Contains(addr) {
			return false
		}
	}
	return true
}

func isPort(ports []*policy.Policy_Port, conn Connection) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		if p.GetProtocol().String() != conn.Protocol {
			continue
		}
		switch {
		case p.GetPort() == nil:
			return true
		case p.GetPort().GetType() == policy.Policy_Port_PortNameOrNumber_NAME:
			if hasPort(conn.To.Pod, p.GetPort().GetName(), conn) {
				return true
			}
		case p.GetEndPort() != 0:
			if conn.Port >= int(p.GetPort().GetNumber()) && conn.Port <= int(p.GetEndPort()) {
				return true
			}
		case conn.Port == int(p.GetPort().GetNumber()):
			return true
		}
	}
	return false
}

// Port names are unique within a pod.
func hasPort(p *pod.Pod, name string, conn Connection) bool {
	if p == nil || p.GetHostNetwork() || finished(p) {
		return false
	}
	containers := slices.Clone(p.GetContainer())
	for _, c := range p.GetInitContainer() {
		if c.GetRestartable() {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, port := range c.GetPort() {
			if port.GetName() == name && port.GetProtocol().String() == conn.Protocol && int(port.GetContainerPort()) == conn.Port {
				return true
			}
		}
	}
	return false
}
