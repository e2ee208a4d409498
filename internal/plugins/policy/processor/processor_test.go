package processor_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	rules "github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/models"
)

func webPod(name, node, ip string, labels ...string) *pod.Pod {
	p := &pod.Pod{Name: name, Namespace: "prod", NodeName: node, IpAddress: ip, Labels: map[string]string{}}
	for _, l := range labels {
		p.Labels[l] = "yes"
	}
	return p
}

func fromLabelled(name, label string) *policy.Policy {
	return &policy.Policy{Name: name, Namespace: "prod", Pods: &policy.Policy_LabelSelector{}, PolicyType: policy.Policy_INGRESS,
		IngressRule: []*policy.Policy_IngressRule{{From: []*policy.Policy_Peer{{Pods: &policy.Policy_LabelSelector{
			MatchLabel: []*policy.Policy_Label{{Key: label, Value: "yes"}}}}}}}}
}

func members(p *processor.Processor) []string {
	values, _ := p.Changes()
	for _, v := range values {
		if set, ok := v.(*filter.AddressSet); ok {
			return set.GetAddresses()
		}
	}
	return []string{"unchanged"}
}

func TestAnAddressBelongsToOnePod(t *testing.T) {
	p := processor.New(policytest.Node)
	p.SetPolicy(fromLabelled("web", "client"))
	step := func(what string, do func(), want ...string) {
		t.Helper()
		do()
		if got := members(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	old := webPod("old", "node2", "10.1.2.2", "client")
	step("the first", func() { p.SetPod(old) }, "10.1.2.2")
	step("a second one, without the label, while its pod is unknown", func() { p.SetPod(webPod("new", "node2", "10.1.2.2")) })
	old.Terminating = true
	step("the first one is about to end: it does not get it back", func() { p.SetPod(old) })
	step("the second one leaves", func() { p.DeletePod(podmanager.PodID{Namespace: "prod", Name: "new"}) }, "10.1.2.2")
	step("a pod of this node has it", func() {
		p.SetPod(webPod("mine", policytest.Node, ""))
		p.SetLocal(podmanager.PodID{Namespace: "prod", Name: "mine"}, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.2")}})
	})
}

// Kubernetes keeps reporting the address of a pod whose network was removed.
func TestAddressOfAnUnwiredPodIsNobodys(t *testing.T) {
	p := processor.New(policytest.Node)
	p.SetPolicy(fromLabelled("web", "client"))
	id := podmanager.PodID{Namespace: "prod", Name: "a"}
	p.SetLocal(id, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	p.SetPod(webPod("a", policytest.Node, "10.1.1.2", "client"))
	if got := members(p); !slices.Equal(got, []string{"10.1.1.2"}) {
		t.Fatalf("wired: %v", got)
	}
	p.DeleteLocal(id)
	if got := members(p); len(got) != 0 {
		t.Errorf("after the pod was unwired: %v", got)
	}
}

// Until a pod's labels are known, the policies of its namespace isolate it.
func TestUnknownPodsAreIsolated(t *testing.T) {
	p := processor.New(policytest.Node)
	id := podmanager.PodID{Namespace: "prod", Name: "a"}
	p.SetLocal(id, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	subject := func() *filter.Subject {
		for _, v := range p.All() {
			if s, ok := v.(*filter.Subject); ok {
				return s
			}
		}
		return nil
	}
	if s := subject(); s != nil {
		t.Errorf("without policies: %v", s)
	}
	other := fromLabelled("web", "client")
	other.Pods.MatchLabel = []*policy.Policy_Label{{Key: "server", Value: "yes"}}
	p.SetPolicy(other)
	if s := subject(); len(s.GetIngress()) != 1 || !s.GetIngress()[0].GetDeny() || len(s.GetIngress()[0].GetLists()) != 0 || s.GetEgress() != nil {
		t.Errorf("before the pod is known: %v", s)
	}
	p.SetPod(webPod("a", policytest.Node, ""))
	if s := subject(); s != nil {
		t.Errorf("it is not selected: %v", s)
	}
	p.SetPod(webPod("a", policytest.Node, "", "server"))
	if s := subject(); len(s.GetIngress()) != 1 || len(s.GetIngress()[0].GetLists()) != 1 {
		t.Errorf("it is selected: %v", s)
	}
}

// Policies of equal priority are ordered by name, not by key.
func TestTheLesserNameIsAskedFirst(t *testing.T) {
	p := processor.New(policytest.Node)
	all := &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}, Pods: &policy.Policy_LabelSelector{}}
	for _, name := range []string{"web-2", "web.2", "web", "web2"} {
		p.SetClusterPolicy(&policy.ClusterPolicy{Name: name, Subject: all, Ingress: []*policy.ClusterPolicy_Rule{{Action: policy.ClusterPolicy_DENY}}})
	}
	p.SetPod(webPod("a", policytest.Node, ""))
	p.SetLocal(podmanager.PodID{Namespace: "prod", Name: "a"}, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	for _, v := range p.All() {
		s, ok := v.(*filter.Subject)
		if !ok {
			continue
		}
		want := []string{"cnp/web/ingress", "cnp/web-2/ingress", "cnp/web.2/ingress", "cnp/web2/ingress"}
		if got := s.GetIngress()[0].GetLists(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		return
	}
	t.Error("the pod is not a subject")
}

// If the vswitch does not allow the node itself, a first stage does.
func TestOwnNodeReachesItsPods(t *testing.T) {
	p := processor.New(policytest.Node)
	p.SetOwnNetworks([]netip.Prefix{netip.MustParsePrefix("172.30.1.0/24")})
	p.SetPolicy(fromLabelled("web", "client"))
	p.SetPod(webPod("a", policytest.Node, ""))
	p.SetLocal(podmanager.PodID{Namespace: "prod", Name: "a"}, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	values, _ := p.Changes()
	state := rules.NewState()
	put := func() {
		for _, v := range values {
			state.Put(v)
		}
	}
	put()
	reaches := func(src string) bool {
		return state.Judge(rules.Connection{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr("10.1.1.2"), Protocol: rules.TCP, Port: 80}).Allowed
	}
	if !reaches("172.30.1.2") || reaches("172.30.2.2") || reaches("192.168.16.1") {
		t.Error("only the host should reach the pod")
	}
	p.SetNode(&node.Node{Name: policytest.Node, Addresses: []*node.NodeAddress{{Address: "192.168.16.1"}}})
	p.SetNode(&node.Node{Name: "node2", Addresses: []*node.NodeAddress{{Address: "192.168.16.2"}}})
	values, _ = p.Changes()
	put()
	if !reaches("192.168.16.1") || reaches("192.168.16.2") {
		t.Error("the node, and no other one, should reach the pod by its address")
	}
}

func TestALabelCostsWhatItTouches(t *testing.T) {
	p := processor.New(policytest.Node)
	for i := range 1000 {
		p.SetPolicy(fromLabelled(fmt.Sprint("policy", i), fmt.Sprint("label", i)))
	}
	p.SetPod(webPod("a", "node2", "10.1.2.2", "label1"))
	p.SetPod(webPod("b", "node2", "10.1.2.3"))
	p.Changes()
	p.SetPod(webPod("a", "node2", "10.1.2.2", "label1", "label2", "label3"))
	if values, gone := p.Changes(); len(values) != 2 || len(gone) != 0 {
		t.Errorf("two sets should change: %v, %v", values, gone)
	}
	p.SetPod(webPod("a", "node2", "10.1.2.2", "label1", "label2", "label3", "unheard-of"))
	if values, gone := p.Changes(); len(values) != 0 || len(gone) != 0 {
		t.Errorf("nothing should change: %v, %v", values, gone)
	}
}

func BenchmarkLabelOfThousandPolicies(b *testing.B) {
	p := processor.New(policytest.Node)
	for i := range 1000 {
		peer := fromLabelled(fmt.Sprint("policy", i), "client")
		peer.Namespace = fmt.Sprint("ns", i)
		peer.IngressRule[0].From[0].Namespaces = &policy.Policy_LabelSelector{}
		peer.IngressRule[0].From[0].Pods.MatchExpression = []*policy.Policy_LabelSelector_LabelExpression{{
			Key: fmt.Sprint("never", i), Operator: policy.Policy_LabelSelector_LabelExpression_DOES_NOT_EXIST}}
		p.SetPolicy(peer)
	}
	for i := range 30000 {
		labels := []string{}
		if i%100 == 0 {
			labels = append(labels, "client")
		}
		p.SetPod(webPod(fmt.Sprint("pod", i), "node2", fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255), labels...))
	}
	p.Changes()
	for i := 0; b.Loop(); i++ {
		var labels []string
		if i%2 == 0 {
			labels = append(labels, "client")
		}
		p.SetPod(webPod("pod7", "node2", "10.1.0.7", labels...))
		if values, _ := p.Changes(); len(values) != 1000 {
			b.Fatal(len(values))
		}
	}
}

// A removal of a key that was never a value would cost an event.
func TestOnlyValuesAreGone(t *testing.T) {
	p := processor.New(policytest.Node)
	id := podmanager.PodID{Namespace: "prod", Name: "a"}
	step := func(what string, values int, gone ...string) {
		t.Helper()
		if v, g := p.Changes(); len(v) != values || !slices.Equal(g, gone) {
			t.Errorf("%s: %v, gone are %v", what, v, g)
		}
	}
	p.SetPod(webPod("a", policytest.Node, ""))
	p.SetLocal(id, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	step("a pod without a policy", 0)
	p.SetPolicy(&policy.Policy{Name: "none", Namespace: "prod", Pods: &policy.Policy_LabelSelector{}, PolicyType: policy.Policy_INGRESS})
	step("isolated", 2)
	p.DeletePolicy(processor.PolicyID{Name: "none", Namespace: "prod"})
	step("no longer", 0, models.Key(&filter.AccessList{Name: "np/prod/none/ingress"}), models.Key(&filter.Subject{Name: "prod/a"}))
	p.DeleteLocal(id)
	step("the pod has gone", 0)
}

// A wired sandbox is not the current pod after the pod was recreated on another node or with
// another UID.
func TestFormerSandboxes(t *testing.T) {
	id := podmanager.PodID{Namespace: "prod", Name: "a"}
	local := processor.Local{UID: "u1", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}}
	withUID := func(node, ip, uid string) *pod.Pod {
		p := webPod("a", node, ip, "client")
		p.Uid = uid
		return p
	}
	for name, test := range map[string]struct {
		pod     *pod.Pod
		current bool
		members []string
	}{
		"the same":                 {withUID(policytest.Node, "10.1.1.2", "u1"), true, []string{"10.1.1.2"}},
		"the UID is not known":     {withUID(policytest.Node, "10.1.1.2", ""), true, []string{"10.1.1.2"}},
		"not bound to a node":      {withUID("", "", "u1"), true, []string{"10.1.1.2"}},
		"on another node":          {withUID("node2", "10.1.2.2", "u2"), false, []string{"10.1.2.2"}},
		"on another node, no UIDs": {withUID("node2", "10.1.2.2", ""), false, []string{"10.1.2.2"}},
		"made again here":          {withUID(policytest.Node, "", "u2"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := fmt.Sprint(test.members)
			for _, order := range []string{"wired first", "known first", "was the same"} {
				p := processor.New(policytest.Node)
				p.SetPolicy(fromLabelled("web", "client"))
				switch order {
				case "wired first":
					p.SetLocal(id, local)
					p.SetPod(test.pod)
				case "known first":
					p.SetPod(test.pod)
					p.SetLocal(id, local)
				case "was the same":
					p.SetPod(withUID(policytest.Node, "10.1.1.2", "u1"))
					p.SetLocal(id, local)
					p.Changes()
					p.SetPod(test.pod)
				}
				got, lists := []string(nil), 0
				for _, v := range p.All() {
					switch v := v.(type) {
					case *filter.AddressSet:
						got = v.GetAddresses()
					case *filter.Subject:
						if len(v.GetIngress()) != 1 || !v.GetIngress()[0].GetDeny() {
							t.Errorf("%s: %v", order, v)
						}
						lists = len(v.GetIngress()[0].GetLists())
					}
				}
				if fmt.Sprint(got) != want || (lists == 1) != test.current {
					t.Errorf("%s: members %v, want %s; %d lists", order, got, want, lists)
				}
				if owner, _ := p.PodOf(netip.MustParseAddr("10.1.1.2")); (owner == id) != test.current {
					t.Errorf("%s: the address belongs to %v", order, owner)
				}
			}
		})
	}
}
