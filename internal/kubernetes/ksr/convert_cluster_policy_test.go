package ksr

import (
	"testing"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConversionOfClusterPolicies(t *testing.T) {
	const (
		key  = "/vnf-agent/contiv-ksr/k8s/clusternetworkpolicy/p"
		head = `"subject":{"namespaces":{},"pods":{}}`
		all  = `"peer":[{"pods":{"namespaces":{},"pods":{}}}]`
	)
	everybody := cnp.Peer{Namespaces: selector()}
	for _, c := range []struct {
		name string
		spec cnp.Spec
		want string
	}{
		{
			"peers of all kinds",
			cnp.Spec{Tier: cnp.Baseline, Priority: 1000, Subject: cnp.Peer{Pods: &cnp.NamespacedPod{NamespaceSelector: *selector("team", "x"), PodSelector: *selector("app", "web")}},
				Ingress: []cnp.IngressRule{{Name: "in", Action: cnp.Deny, From: []cnp.Peer{everybody, {Pods: &cnp.NamespacedPod{PodSelector: *selector("a", "1")}}}}},
				Egress:  []cnp.EgressRule{{Action: cnp.Pass, To: []cnp.Peer{{Nodes: selector("zone", "b")}, {Networks: []string{"10.0.0.0/8", "fd00::/8"}}}}}},
			`"tier":"BASELINE","priority":1000,"subject":{"namespaces":{"match_label":[{"key":"team","value":"x"}]},"pods":{"match_label":[{"key":"app","value":"web"}]}},` +
				`"ingress":[{"name":"in","action":"DENY","peer":[{"pods":{"namespaces":{},"pods":{}}},{"pods":{"namespaces":{},"pods":{"match_label":[{"key":"a","value":"1"}]}}}]}],` +
				`"egress":[{"action":"PASS","peer":[{"nodes":{"match_label":[{"key":"zone","value":"b"}]}},{"networks":["10.0.0.0/8","fd00::/8"]}]}]`,
		},
		{
			"ports of all kinds",
			cnp.Spec{Tier: cnp.Admin, Subject: everybody, Ingress: []cnp.IngressRule{{Action: cnp.Accept, From: []cnp.Peer{everybody}, Protocols: []cnp.Protocol{
				{TCP: &cnp.Destination{}}, {UDP: &cnp.Destination{DestinationPort: &cnp.Port{Number: 53}}},
				{SCTP: &cnp.Destination{DestinationPort: &cnp.Port{Range: &cnp.PortRange{Start: 1, End: 9}}}}, {DestinationNamedPort: "http"},
			}}}},
			head + `,"ingress":[{` + all + `,"port":[{},{"protocol":"UDP","first":53,"last":53},{"protocol":"SCTP","first":1,"last":9},{"name":"http"}]}]`,
		},
		{
			"parts that are not understood are reflected as such",
			cnp.Spec{Tier: cnp.Admin, Subject: everybody,
				Ingress: []cnp.IngressRule{
					{Name: "new peer", Action: cnp.Accept, From: []cnp.Peer{everybody, {}}},
					{Name: "new peer", Action: cnp.Deny, From: []cnp.Peer{{}}},
					{Name: "nobody", Action: cnp.Pass},
					{Name: "networks are no sources", Action: cnp.Accept, From: []cnp.Peer{{Networks: []string{"10.0.0.0/8"}}}},
					{Name: "new action", Action: "Log", From: []cnp.Peer{everybody}},
				},
				Egress: []cnp.EgressRule{
					{Name: "domains", Action: cnp.Accept, To: []cnp.Peer{{DomainNames: []string{"example.com"}}}},
					{Name: "no network", Action: cnp.Pass, To: []cnp.Peer{{Networks: []string{"10.0.0.0"}}}},
					{Name: "new protocol", Action: cnp.Accept, To: []cnp.Peer{everybody}, Protocols: []cnp.Protocol{{TCP: &cnp.Destination{}}, {}}},
					{Name: "no port", Action: cnp.Deny, To: []cnp.Peer{everybody}, Protocols: []cnp.Protocol{{TCP: &cnp.Destination{DestinationPort: &cnp.Port{Number: 70000}}}}},
					{Name: "new port", Action: cnp.Accept, To: []cnp.Peer{everybody}, Protocols: []cnp.Protocol{{TCP: &cnp.Destination{DestinationPort: &cnp.Port{}}}}},
				}},
			head + `,"ingress":[{"name":"new peer","peer":[{"pods":{"namespaces":{},"pods":{}}},{}]},{"name":"new peer","action":"DENY","peer":[{}]},{"name":"nobody","action":"PASS","peer":[{}]},` +
				`{"name":"networks are no sources","peer":[{}]},{"name":"new action","action":"DENY",` + all + `}],` +
				`"egress":[{"name":"domains","peer":[{}]},{"name":"no network","action":"PASS","peer":[{"networks":["10.0.0.0"]}]},` +
				`{"name":"new protocol",` + all + `,"port":[{},{"protocol":"OTHER"}]},{"name":"no port","action":"DENY",` + all + `,"port":[{"protocol":"OTHER","first":70000,"last":70000}]},` +
				`{"name":"new port",` + all + `,"port":[{"protocol":"OTHER"}]}],` +
				`"invalid":["spec.ingress[4].action: \"Log\" is none of Accept, Deny and Pass; the rule denies"]`,
		},
		{
			"of an unknown tier, rules that deny hold",
			cnp.Spec{Tier: "Middle", Subject: everybody, Ingress: []cnp.IngressRule{
				{Name: "a", Action: cnp.Accept, From: []cnp.Peer{everybody}}, {Name: "b", Action: cnp.Deny, From: []cnp.Peer{everybody}}, {Name: "c", Action: cnp.Pass, From: []cnp.Peer{everybody}},
			}},
			head + `,"ingress":[{"name":"b","action":"DENY",` + all + `}],"invalid":["spec.tier: \"Middle\" is none of Admin and Baseline; only the Deny rules hold, in the tier Admin"]`,
		},
		{"an unknown subject selects no pods", cnp.Spec{Tier: cnp.Admin, Subject: cnp.Peer{}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := `{"name":"p"`
			if c.want != "" {
				want += "," + c.want
			}
			wantConverted(t, &cnp.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: c.spec}, key, want+"}")
		})
	}
}

func TestCopiesOfClusterPoliciesAreTheirOwn(t *testing.T) {
	p := &cnp.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: cnp.Spec{Subject: cnp.Peer{Namespaces: selector("a", "1")}}}
	c := p.DeepCopyObject().(*cnp.ClusterNetworkPolicy)
	c.Spec.Subject.Namespaces.MatchLabels["a"] = "2"
	if p.Spec.Subject.Namespaces.MatchLabels["a"] != "1" || c.Name != "p" {
		t.Errorf("%+v, %+v", p, c)
	}
}
