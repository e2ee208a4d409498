package apiserver

import (
	"fmt"
	"net/netip"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkSelector(at *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
}

func checkPolicy(policy *networkingv1.NetworkPolicySpec) field.ErrorList {
	errs := checkSelector(spec.Child("podSelector"), &policy.PodSelector)
	for i, t := range policy.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, oneOf(spec.Child("policyTypes").Index(i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
		}
	}
	for i, rule := range policy.Ingress {
		errs = append(errs, checkRule(spec.Child("ingress").Index(i), "from", rule.From, rule.Ports)...)
	}
	for i, rule := range policy.Egress {
		errs = append(errs, checkRule(spec.Child("egress").Index(i), "to", rule.To, rule.Ports)...)
	}
	return errs
}

func checkRule(at *field.Path, peersName string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) (errs field.ErrorList) {
	for i, p := range ports {
		errs = append(errs, checkPolicyPort(at.Child("ports").Index(i), p)...)
	}
	for i, p := range peers {
		errs = append(errs, checkPeer(at.Child(peersName).Index(i), p)...)
	}
	return errs
}

func checkPolicyPort(at *field.Path, p networkingv1.NetworkPolicyPort) (errs field.ErrorList) {
	if p.Protocol != nil {
		errs = append(errs, checkProtocol(at.Child("protocol"), *p.Protocol)...)
	}
	if p.Port != nil {
		errs = append(errs, checkTarget(at.Child("port"), *p.Port)...)
	}
	switch {
	case p.EndPort == nil:
	case p.Port == nil || p.Port.Type == intstr.String:
		errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, "needs a port that is a number"))
	case *p.EndPort < p.Port.IntVal:
		errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, fmt.Sprintf("must not be less than port, %d", p.Port.IntVal)))
	default:
		errs = append(errs, checkPort(at.Child("endPort"), *p.EndPort)...)
	}
	return errs
}

func checkPeer(at *field.Path, p networkingv1.NetworkPolicyPeer) field.ErrorList {
	errs := checkSelector(at.Child("podSelector"), p.PodSelector)
	errs = append(errs, checkSelector(at.Child("namespaceSelector"), p.NamespaceSelector)...)
	switch {
	case p.IPBlock == nil && p.PodSelector == nil && p.NamespaceSelector == nil:
		return append(errs, field.Required(at, "a peer has a podSelector, a namespaceSelector or an ipBlock"))
	case p.IPBlock == nil:
		return errs
	case p.PodSelector != nil || p.NamespaceSelector != nil:
		errs = append(errs, field.Forbidden(at.Child("ipBlock"), "a peer with selectors has no ipBlock: make two peers of it"))
	}
	return append(errs, checkBlock(at.Child("ipBlock"), p.IPBlock)...)
}

func checkBlock(at *field.Path, block *networkingv1.IPBlock) field.ErrorList {
	if errs := checkCIDR(at.Child("cidr"), block.CIDR); errs != nil {
		return errs
	}
	var errs field.ErrorList
	whole := netip.MustParsePrefix(block.CIDR)
	for i, text := range block.Except {
		at := at.Child("except").Index(i)
		except, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			errs = append(errs, checkCIDR(at, text)...)
		case !whole.Contains(except.Addr()) || except.Bits() <= whole.Bits():
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("must be a part of cidr, %s", block.CIDR)))
		}
	}
	return errs
}

func checkClusterPolicy(policy *cnp.Spec) field.ErrorList {
	var errs field.ErrorList
	if policy.Tier != cnp.Admin && policy.Tier != cnp.Baseline {
		errs = append(errs, oneOf(spec.Child("tier"), policy.Tier, cnp.Admin, cnp.Baseline))
	}
	if policy.Priority < 0 || policy.Priority > 1000 {
		errs = append(errs, field.Invalid(spec.Child("priority"), policy.Priority, "must be between 0 and 1000, inclusive"))
	}
	errs = append(errs, checkClusterPeer(spec.Child("subject"), policy.Subject, true)...)
	for i, r := range policy.Ingress {
		errs = append(errs, checkClusterRule(spec.Child("ingress").Index(i), r.Action, "from", r.From, r.Protocols, true)...)
	}
	for i, r := range policy.Egress {
		errs = append(errs, checkClusterRule(spec.Child("egress").Index(i), r.Action, "to", r.To, r.Protocols, false)...)
	}
	return errs
}

func checkClusterRule(at *field.Path, action, peersName string, peers []cnp.Peer, protocols []cnp.Protocol, podsOnly bool) (errs field.ErrorList) {
	if action != cnp.Accept && action != cnp.Deny && action != cnp.Pass {
		errs = append(errs, oneOf(at.Child("action"), action, cnp.Accept, cnp.Deny, cnp.Pass))
	}
	if len(peers) == 0 {
		errs = append(errs, field.Required(at.Child(peersName), "a rule is about at least one peer"))
	}
	for i, p := range peers {
		errs = append(errs, checkClusterPeer(at.Child(peersName).Index(i), p, podsOnly)...)
	}
	for i, p := range protocols {
		errs = append(errs, checkClusterPort(at.Child("protocols").Index(i), p)...)
	}
	return errs
}

// checkClusterPeer checks a peer or the subject of a cluster policy. podsOnly rejects nodes and
// networks.
func checkClusterPeer(at *field.Path, p cnp.Peer, podsOnly bool) field.ErrorList {
	kinds := count(p.Namespaces != nil, p.Pods != nil)
	choice := "namespaces or pods"
	if !podsOnly {
		kinds += count(p.Nodes != nil, len(p.Networks) > 0, len(p.DomainNames) > 0)
		choice = "namespaces, pods, nodes, networks or domainNames"
	}
	var errs field.ErrorList
	switch {
	case podsOnly && count(p.Nodes != nil, len(p.Networks) > 0, len(p.DomainNames) > 0) > 0:
		errs = append(errs, field.Forbidden(at, "only "+choice+" can stand here"))
	case kinds != 1:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have exactly one of "+choice))
	}
	errs = append(errs, checkSelector(at.Child("namespaces"), p.Namespaces)...)
	errs = append(errs, checkSelector(at.Child("nodes"), p.Nodes)...)
	if p.Pods != nil {
		errs = append(errs, checkSelector(at.Child("pods", "namespaceSelector"), &p.Pods.NamespaceSelector)...)
		errs = append(errs, checkSelector(at.Child("pods", "podSelector"), &p.Pods.PodSelector)...)
	}
	for i, network := range p.Networks {
		errs = append(errs, checkCIDR(at.Child("networks").Index(i), network)...)
	}
	return errs
}

func checkClusterPort(at *field.Path, p cnp.Protocol) (errs field.ErrorList) {
	if count(p.TCP != nil, p.UDP != nil, p.SCTP != nil, p.DestinationNamedPort != "") != 1 {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have exactly one of tcp, udp, sctp and destinationNamedPort"))
	}
	for name, destination := range map[string]*cnp.Destination{"tcp": p.TCP, "udp": p.UDP, "sctp": p.SCTP} {
		if destination == nil || destination.DestinationPort == nil {
			continue
		}
		at, port := at.Child(name, "destinationPort"), destination.DestinationPort
		switch {
		case count(port.Number != 0, port.Range != nil) != 1:
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have a number, from 1 to 65535, or a range"))
		case port.Range == nil:
			errs = append(errs, checkPort(at.Child("number"), port.Number)...)
		default:
			errs = append(errs, checkPort(at.Child("range", "start"), port.Range.Start)...)
			errs = append(errs, checkPort(at.Child("range", "end"), port.Range.End)...)
			if port.Range.End < port.Range.Start {
				errs = append(errs, field.Invalid(at.Child("range", "end"), port.Range.End, fmt.Sprintf("must not be less than start, %d", port.Range.Start)))
			}
		}
	}
	return errs
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}
