package configurator_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
)

func hosts(n int) (list []string) {
	for i := range n {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32).String())
	}
	return list
}

// A policy beyond its limits fails closed and reports its size.
func TestPoliciesHaveBounds(t *testing.T) {
	peers := func(n int) (list []*policy.Policy_Peer) {
		for _, host := range hosts(n) {
			list = append(list, block(host))
		}
		return list
	}
	var spread []string // each exception splits the block into about 20 networks
	for i := range 1024 {
		spread = append(spread, fmt.Sprintf("fd00:%x::1/128", i*64))
	}
	for name, test := range map[string]struct {
		peers   []*policy.Policy_Peer
		rules   int
		invalid []string
	}{
		"the most":            {peers(16_383), 1, nil},
		"one too many":        {peers(16_384), 0, []string{"the policy has 16385 peers, networks, exceptions and ports, but at most 16384 are allowed"}},
		"the most exceptions": {[]*policy.Policy_Peer{block("10.0.0.0/8", hosts(1024)...)}, 1, nil},
		"too many exceptions": {[]*policy.Policy_Peer{block("10.0.0.0/8", hosts(1025)...)}, 0, []string{"spec.ingress[0].from[0].ipBlock.except: 1025 networks, but at most 1024 are allowed"}},
		"exceptions that divide networks into too many": {[]*policy.Policy_Peer{block("fd00::/16", spread...)}, 0, []string{"the policy has "}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := configurator.NetworkPolicy(&policy.Policy{Name: "p", Namespace: "default", PolicyType: policy.Policy_INGRESS, IngressRule: []*policy.Policy_IngressRule{{From: test.peers}}})
			if lists.Ingress == nil || lists.Egress != nil || len(lists.Ingress.GetRules()) != test.rules {
				t.Errorf("%d rules, want %d", len(lists.Ingress.GetRules()), test.rules)
			}
			want(t, lists, nil, nil, test.invalid)
		})
	}
}

func TestClusterPoliciesHaveBounds(t *testing.T) {
	rule := func(action policy.ClusterPolicy_Action, networks int) *policy.ClusterPolicy_Rule {
		return &policy.ClusterPolicy_Rule{Action: action, Peer: []*policy.ClusterPolicy_Peer{{Networks: hosts(networks)}}}
	}
	p := &policy.ClusterPolicy{
		Name: "p", Subject: &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}},
		Ingress: []*policy.ClusterPolicy_Rule{rule(policy.ClusterPolicy_ACCEPT, 20_000)},
		Egress:  []*policy.ClusterPolicy_Rule{rule(policy.ClusterPolicy_ACCEPT, 1), rule(policy.ClusterPolicy_DENY, 1)},
	}
	invalid := []string{"the policy has 20008 peers, networks, exceptions and ports, but at most 16384 are allowed"}
	lists := configurator.ClusterPolicy(p)
	want(t, lists, lists.Ingress, nil, invalid)
	want(t, lists, lists.Egress, []string{"DENY all all"}, invalid)
}
