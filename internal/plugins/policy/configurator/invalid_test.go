package configurator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
)

// text formats a rule as action, peers, ports.
func text(r *filter.AccessList_Rule) string {
	peers, ports := slices.Clone(r.GetNetworks()), []string{}
	for _, set := range r.GetAddressSets() {
		peers = append(peers, set[:strings.Index(set, "-")])
	}
	for _, p := range r.GetPorts() {
		ports = append(ports, fmt.Sprintf("%v/%d-%d", p.GetProtocol(), p.GetFirst(), p.GetLast()))
	}
	ports = append(ports, r.GetEndpointSets()...)
	all := func(list []string) string {
		if len(list) == 0 {
			return "all"
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprintf("%v %s %s", r.GetAction(), all(peers), all(ports))
}

func texts(list *filter.AccessList) (out []string) {
	for _, r := range list.GetRules() {
		out = append(out, text(r))
	}
	return out
}

func want(t *testing.T, lists *configurator.Lists, list *filter.AccessList, rules, invalid []string) {
	t.Helper()
	if got := texts(list); !slices.Equal(got, rules) {
		t.Errorf("rules %q, want %q", got, rules)
	}
	if len(lists.Invalid) != len(invalid) {
		t.Fatalf("invalid %q, want %q", lists.Invalid, invalid)
	}
	for i, part := range invalid {
		if !strings.HasPrefix(lists.Invalid[i], part) {
			t.Errorf("invalid %q, want %q", lists.Invalid[i], part)
		}
	}
}

func unknownSelector() *policy.Policy_LabelSelector {
	return &policy.Policy_LabelSelector{MatchExpression: []*policy.Policy_LabelSelector_LabelExpression{{Key: "a"}}}
}

func block(cidr string, except ...string) *policy.Policy_Peer {
	return &policy.Policy_Peer{IpBlock: &policy.Policy_Peer_IPBlock{Cidr: cidr, Except: except}}
}

func number(n int32) *policy.Policy_Port_PortNameOrNumber {
	return &policy.Policy_Port_PortNameOrNumber{Number: n}
}

func TestInvalidPartsOfNetworkPolicies(t *testing.T) {
	all := &policy.Policy_LabelSelector{}
	named := func(name string) *policy.Policy_Port_PortNameOrNumber {
		return &policy.Policy_Port_PortNameOrNumber{Type: policy.Policy_Port_PortNameOrNumber_NAME, Name: name}
	}
	peers := func(list ...*policy.Policy_Peer) *policy.Policy_EgressRule {
		return &policy.Policy_EgressRule{To: list}
	}
	ports := func(list ...*policy.Policy_Port) *policy.Policy_EgressRule {
		return &policy.Policy_EgressRule{Port: list}
	}
	good := block("10.1.2.5/32")
	for _, c := range []struct {
		name           string
		rules          []*policy.Policy_EgressRule
		want, mentions []string
	}{
		{"nothing wrong", []*policy.Policy_EgressRule{peers(good, block("::ffff:10.1.2.4/128"))}, []string{"ALLOW 10.1.2.4/32,10.1.2.5/32 all"}, nil},
		{"a network", []*policy.Policy_EgressRule{peers(block("10.1.2.4"), good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{`spec.egress[0].to[0].ipBlock.cidr: "10.1.2.4" is no network`}},
		{"the only network of a rule", []*policy.Policy_EgressRule{peers(block("x")), peers(good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{`spec.egress[0].to[0].ipBlock.cidr: "x" is no network`}},
		{"an exception", []*policy.Policy_EgressRule{peers(block("10.0.0.0/8", "10.1.0.0/16", "x")), peers(good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{`spec.egress[0].to[0].ipBlock.except[1]: "x" is no network`}},
		{"a peer of no kind", []*policy.Policy_EgressRule{peers(&policy.Policy_Peer{}, good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0]: exactly one of"}},
		{"a peer of two kinds", []*policy.Policy_EgressRule{peers(&policy.Policy_Peer{IpBlock: block("10.0.0.0/8").IpBlock, Pods: all}, good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0]: exactly one of"}},
		{"an operator of pods", []*policy.Policy_EgressRule{peers(&policy.Policy_Peer{Pods: unknownSelector()}, good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0].podSelector: matchExpressions[0]"}},
		{"an operator of namespaces", []*policy.Policy_EgressRule{peers(&policy.Policy_Peer{Namespaces: unknownSelector(), Pods: all}, good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0].namespaceSelector: matchExpressions[0]"}},
		{"a protocol", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Protocol: policy.Policy_Port_OTHER}, &policy.Policy_Port{Port: number(80)})}, []string{"ALLOW all TCP/80-80"}, []string{"spec.egress[0].ports[0].protocol"}},
		{"a port", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: number(70000)}, &policy.Policy_Port{Port: number(80)})}, []string{"ALLOW all TCP/80-80"}, []string{"spec.egress[0].ports[0].port: 70000"}},
		{"the only port of a rule", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: number(0)}), peers(good)}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].ports[0].port: 0"}},
		{"the end of a range", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: number(80), EndPort: 79}, &policy.Policy_Port{Port: number(80), EndPort: 81})}, []string{"ALLOW all TCP/80-81"}, []string{"spec.egress[0].ports[0].endPort: 79"}},
		{"the end of a range that is 0", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: number(80), EndPort: -1})}, nil, []string{"spec.egress[0].ports[0].endPort: 0"}},
		{"a range without a port", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{EndPort: 90})}, nil, []string{"spec.egress[0].ports[0].endPort: requires a numeric port"}},
		{"a range with a name", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: named("web"), EndPort: 90})}, nil, []string{"spec.egress[0].ports[0].endPort: requires a numeric port"}},
		{"an empty name", []*policy.Policy_EgressRule{ports(&policy.Policy_Port{Port: named("")})}, nil, []string{"spec.egress[0].ports[0].port: an empty name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lists := configurator.NetworkPolicy(&policy.Policy{Namespace: "default", Name: "p", Pods: all, PolicyType: policy.Policy_EGRESS, EgressRule: c.rules})
			if lists.Egress == nil {
				t.Fatal("the policy does not isolate")
			}
			want(t, lists, lists.Egress, c.want, c.mentions)
		})
	}
	t.Run("the selector of the policy", func(t *testing.T) {
		selector := unknownSelector()
		selector.MatchLabel = []*policy.Policy_Label{{Key: "app", Value: "web"}}
		lists := configurator.NetworkPolicy(&policy.Policy{Namespace: "default", Name: "p", Pods: selector, IngressRule: []*policy.Policy_IngressRule{{}}})
		if lists.Ingress == nil || lists.Subjects.Selector.String() != "app=web" {
			t.Errorf("ingress %v, subjects %v", lists.Ingress, lists.Subjects)
		}
		want(t, lists, lists.Ingress, nil, []string{"spec.podSelector: matchExpressions[0]"})
	})
	t.Run("many parts", func(t *testing.T) {
		lists := configurator.NetworkPolicy(&policy.Policy{Namespace: "default", Name: "p", Pods: all, PolicyType: policy.Policy_EGRESS, EgressRule: []*policy.Policy_EgressRule{peers(slices.Repeat([]*policy.Policy_Peer{block("x")}, 100)...)}})
		if n := len(lists.Invalid); n != 11 || lists.Invalid[10] != "90 more invalid parts" {
			t.Errorf("%d: %q", n, lists.Invalid[n-1])
		}
	})
}

// In cluster network policies, Accept rules skip invalid parts, and all other rules deny because of
// them.
func TestInvalidPartsOfClusterPolicies(t *testing.T) {
	const accept, deny, pass = policy.ClusterPolicy_ACCEPT, policy.ClusterPolicy_DENY, policy.ClusterPolicy_PASS
	type peer = policy.ClusterPolicy_Peer
	networks := func(texts ...string) *peer { return &peer{Networks: texts} }
	other := &policy.ClusterPolicy_Port{Protocol: policy.Policy_Port_OTHER}
	http := &policy.ClusterPolicy_Port{First: 80, Last: 80}
	rule := func(action policy.ClusterPolicy_Action, peers []*peer, ports ...*policy.ClusterPolicy_Port) *policy.ClusterPolicy_Rule {
		return &policy.ClusterPolicy_Rule{Action: action, Peer: peers, Port: ports}
	}
	good, bad := networks("10.1.2.5/32"), networks("10.1.2.4/33")
	everybody := &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}, Pods: &policy.Policy_LabelSelector{}}
	for _, c := range []struct {
		name     string
		rules    []*policy.ClusterPolicy_Rule
		want     []string
		mentions []string
	}{
		{"mapped networks", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{networks("10.1.2.4/32", "::ffff:a01:205/128")})}, []string{"DENY 10.1.2.4/32,10.1.2.5/32 all"}, nil},
		{"accept: a network", []*policy.ClusterPolicy_Rule{rule(accept, []*peer{networks("x", "10.1.2.5/32")}, http)}, []string{"ALLOW 10.1.2.5/32 TCP/80-80"}, []string{`spec.egress[0].to[0].networks[0]: "x" is no network`}},
		{"accept: a peer", []*policy.ClusterPolicy_Rule{rule(accept, []*peer{good, {}}), rule(deny, nil)}, []string{"ALLOW 10.1.2.5/32 all", "DENY all all"}, []string{"spec.egress[0].to[1]: a peer of an unknown kind"}},
		{"accept: the only peer", []*policy.ClusterPolicy_Rule{rule(accept, []*peer{{}}), rule(accept, []*peer{good})}, []string{"ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0]"}},
		{"accept: a port", []*policy.ClusterPolicy_Rule{rule(accept, []*peer{good}, other, http)}, []string{"ALLOW 10.1.2.5/32 TCP/80-80"}, []string{"spec.egress[0].protocols[0]"}},
		{"accept: the only port", []*policy.ClusterPolicy_Rule{rule(accept, []*peer{good}, other)}, nil, []string{"spec.egress[0].protocols[0]"}},
		{"deny: a network", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{networks("10.1.2.5/32", "x")}, http), rule(accept, []*peer{good})}, []string{"DENY all TCP/80-80", "ALLOW 10.1.2.5/32 all"}, []string{"spec.egress[0].to[0].networks[1]"}},
		{"deny: a peer", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{good, {}})}, []string{"DENY all all"}, []string{"spec.egress[0].to[1]"}},
		{"deny: an operator of pods", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{{Pods: &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}, Pods: unknownSelector()}}})}, []string{"DENY all all"}, []string{"spec.egress[0].to[0]: podSelector: matchExpressions[0]"}},
		{"deny: an operator of nodes", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{{Nodes: unknownSelector()}})}, []string{"DENY all all"}, []string{"spec.egress[0].to[0]: matchExpressions[0]"}},
		{"deny: a port", []*policy.ClusterPolicy_Rule{rule(deny, []*peer{good}, http, other)}, []string{"DENY 10.1.2.5/32 all"}, []string{"spec.egress[0].protocols[1]"}},
		{"pass: a peer", []*policy.ClusterPolicy_Rule{rule(pass, []*peer{good, bad}, http)}, []string{"PASS 10.1.2.5/32 TCP/80-80", "DENY all TCP/80-80"}, []string{"spec.egress[0].to[1].networks[0]"}},
		{"pass: a port", []*policy.ClusterPolicy_Rule{rule(pass, []*peer{good}, http, other)}, []string{"PASS 10.1.2.5/32 TCP/80-80", "DENY 10.1.2.5/32 all"}, []string{"spec.egress[0].protocols[1]"}},
		{"pass: the only peer", []*policy.ClusterPolicy_Rule{rule(pass, []*peer{bad})}, []string{"DENY all all"}, []string{"spec.egress[0].to[0].networks[0]"}},
		{"an action", []*policy.ClusterPolicy_Rule{rule(99, []*peer{good})}, []string{"DENY 10.1.2.5/32 all"}, []string{"spec.egress[0].action"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lists := configurator.ClusterPolicy(&policy.ClusterPolicy{Name: "p", Subject: everybody, Egress: c.rules})
			want(t, lists, lists.Egress, c.want, c.mentions)
		})
	}
	t.Run("the selector of the subject", func(t *testing.T) {
		lists := configurator.ClusterPolicy(&policy.ClusterPolicy{Name: "p", Subject: &policy.ClusterPolicy_Pods{Namespaces: unknownSelector(), Pods: &policy.Policy_LabelSelector{}},
			Egress: []*policy.ClusterPolicy_Rule{rule(accept, []*peer{good}), rule(deny, []*peer{good}), rule(pass, []*peer{good})}})
		want(t, lists, lists.Egress, []string{"DENY 10.1.2.5/32 all"}, []string{"spec.subject: namespaceSelector: matchExpressions[0]"})
	})
	t.Run("no subject, and the error of KSR", func(t *testing.T) {
		lists := configurator.ClusterPolicy(&policy.ClusterPolicy{Name: "p", Invalid: []string{"spec.tier: x"}, Egress: []*policy.ClusterPolicy_Rule{rule(deny, nil)}})
		want(t, lists, lists.Egress, nil, []string{"spec.tier: x", "spec.subject: exactly one of namespaces and pods is required"})
	})
}
