package processor_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// isolating selects pods with a label, and allows a number of networks, and pods with the label.
func isolating(name, label string, networks int) *policy.Policy {
	p := fromLabelled(name, label)
	p.Pods = p.GetIngressRule()[0].GetFrom()[0].GetPods()
	for i := range networks {
		p.IngressRule[0].From = append(p.IngressRule[0].From, &policy.Policy_Peer{IpBlock: &policy.Policy_Peer_IPBlock{Cidr: fmt.Sprintf("192.0.%d.%d/32", i>>8, i&255)}})
	}
	return p
}

type applied map[string]proto.Message

func (a applied) follow(p *processor.Processor) {
	values, gone := p.Changes()
	for _, v := range values {
		a[models.Key(v)] = v
	}
	for _, key := range gone {
		delete(a, key)
	}
}

func (a applied) stages(name string) []*filter.Subject_Stage {
	s, _ := a[models.Key(&filter.Subject{Name: "prod/" + name})].(*filter.Subject)
	return s.GetIngress()
}

// A policy beyond the limits of the node isolates its pods, allows nothing and reports its size.
// It is taken when there is room again.
func TestPoliciesOfANodeHaveBounds(t *testing.T) {
	p, values := processor.New(policytest.Node), applied{}
	p.SetBound(30, 1000)
	p.SetNamespace(&namespace.Namespace{Name: "prod"})
	for i, name := range []string{"a", "b", "none"} {
		p.SetPod(webPod(name, policytest.Node, "", name))
		p.SetLocal(podmanager.PodID{Namespace: "prod", Name: name}, processor.Local{Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 1, byte(i)})}})
	}
	p.SetPolicy(isolating("small", "a", 10))
	p.SetPolicy(isolating("large", "b", 20))
	values.follow(p)
	if s := values.stages("a"); len(s) != 1 || !s[0].GetDeny() || len(s[0].GetLists()) != 1 {
		t.Errorf("the pod of the small policy has %v", s)
	}
	if s := values.stages("b"); len(s) != 1 || !s[0].GetDeny() || len(s[0].GetLists()) != 0 {
		t.Errorf("the pod of the refused policy has %v", s)
	}
	if s := values.stages("none"); s != nil {
		t.Errorf("a pod without policies has %v", s)
	}
	if values[models.Key(&filter.AccessList{Name: "np/prod/large/ingress"})] != nil {
		t.Error("the refused policy has a list")
	}
	for _, known := range p.Policies() {
		refused := known.ID.Name == "large"
		text := strings.Join(known.Invalid, "\n")
		if refused != strings.Contains(text, "the policy has 22 peers, networks, exceptions and ports, and the policies of the node have no room for it: of all together, 30 of these parts and 1000 selected pods are taken, the smallest policies first; it isolates its pods and allows nothing") {
			t.Errorf("%v: %q", known.ID, text)
		}
		if len(known.Wired) != 1 {
			t.Errorf("%v selects %v", known.ID, known.Wired)
		}
	}
	if denying := p.Denying(podmanager.PodID{Namespace: "prod", Name: "b"}, filter.AccessList_INGRESS, false); len(denying) != 1 {
		t.Errorf("pod b is denied by %v", denying)
	}
	relabelled := webPod("none", policytest.Node, "", "b")
	p.SetPod(relabelled)
	values.follow(p)
	if s := values.stages("none"); len(s) != 1 || !s[0].GetDeny() {
		t.Errorf("a pod that the refused policy begins to select has %v", s)
	}
	p.DeletePolicy(processor.PolicyID{Namespace: "prod", Name: "small"})
	values.follow(p)
	if s := values.stages("b"); len(s) != 1 || len(s[0].GetLists()) != 1 {
		t.Errorf("with room again, the pod has %v", s)
	}
	if len(p.Invalid()) != 0 {
		t.Errorf("with room again: %v", p.Invalid())
	}
}

// Selections of many pods are limited as well. Cluster network policies have precedence.
func TestSelectedPodsHaveBounds(t *testing.T) {
	p, values := processor.New(policytest.Node), applied{}
	p.SetBound(1000, 200)
	p.SetNamespace(&namespace.Namespace{Name: "prod"})
	for i := range 100 {
		p.SetPod(webPod(fmt.Sprint("a", i), "node2", "", "a"))
	}
	p.SetPod(webPod("c", policytest.Node, "", "c"))
	p.SetLocal(podmanager.PodID{Namespace: "prod", Name: "c"}, processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	all := &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}}
	for i, name := range []string{"first", "second"} {
		p.SetClusterPolicy(&policy.ClusterPolicy{Name: name, Subject: &policy.ClusterPolicy_Pods{Namespaces: &policy.Policy_LabelSelector{}, Pods: &policy.Policy_LabelSelector{MatchLabel: []*policy.Policy_Label{{Key: "c", Value: "yes"}}}},
			Ingress: []*policy.ClusterPolicy_Rule{{Action: policy.ClusterPolicy_ACCEPT, Peer: []*policy.ClusterPolicy_Peer{{Pods: all}}}, {Action: policy.ClusterPolicy_DENY, Peer: []*policy.ClusterPolicy_Peer{{Networks: hostsOf(i * 5)}}}}})
	}
	p.SetPolicy(isolating("tenant", "a", 0))
	values.follow(p)
	if ids := invalid(p); !slices.Equal(ids, []string{"prod/tenant"}) {
		t.Errorf("refused: %v", ids)
	}
	p.SetPod(webPod("further", "node2", "", "a"))
	p.SetBound(1000, 50)
	values.follow(p)
	if ids := invalid(p); len(ids) != 3 {
		t.Errorf("refused with less room: %v", ids)
	}
	if s := values.stages("c"); len(s) != 1 || !s[0].GetDeny() || len(s[0].GetLists()) != 0 {
		t.Errorf("the subject of refused cluster network policies has %v", s)
	}
	if _, pods := p.Used(); pods > 50 {
		t.Errorf("%d pods", pods)
	}
}

func hostsOf(n int) (list []string) {
	for i := range n + 1 {
		list = append(list, fmt.Sprintf("192.0.2.%d/32", i))
	}
	return list
}

func invalid(p *processor.Processor) (ids []string) {
	for _, known := range p.Invalid() {
		ids = append(ids, known.ID.String())
	}
	return ids
}

// The refused policies, and all values, do not depend on the order of events.
func TestRefusedPoliciesDoNotDependOnHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const maxParts, maxPods = 120, 150
	pods := map[string]func(*processor.Processor){}
	policies := map[string]func(*processor.Processor){}
	p, values := processor.New(policytest.Node), applied{}
	p.SetBound(maxParts, maxPods)
	p.SetNamespace(&namespace.Namespace{Name: "prod"})
	refused := 0
	for step := range 400 {
		for range 1 + random.IntN(3) {
			name, label := fmt.Sprint("p", random.IntN(30)), string(rune('a'+random.IntN(6)))
			switch random.IntN(5) {
			case 0:
				delete(pods, name)
				p.DeletePod(podmanager.PodID{Namespace: "prod", Name: name})
			case 1:
				pod := webPod(name, policytest.Node, "", label, string(rune('a'+random.IntN(6))))
				pods[name] = func(p *processor.Processor) {
					p.SetPod(pod)
					p.SetLocal(podmanager.IDOf(pod), processor.Local{Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.9")}})
				}
				pods[name](p)
			case 2:
				delete(policies, name)
				p.DeletePolicy(processor.PolicyID{Namespace: "prod", Name: name})
			default:
				np := isolating(name, label, random.IntN(20))
				policies[name] = func(p *processor.Processor) { p.SetPolicy(np) }
				policies[name](p)
			}
		}
		values.follow(p)
		if parts, pods := p.Used(); parts > maxParts || pods > maxPods {
			t.Fatalf("step %d: %d parts, %d pods", step, parts, pods)
		}
		fresh, want := processor.New(policytest.Node), applied{}
		fresh.SetBound(maxParts, maxPods)
		fresh.SetNamespace(&namespace.Namespace{Name: "prod"})
		for id, local := range p.Locals() {
			fresh.SetLocal(id, *local)
		}
		for _, all := range []map[string]func(*processor.Processor){pods, policies} {
			for _, set := range all {
				set(fresh)
			}
		}
		want.follow(fresh)
		refused += len(invalid(fresh))
		if got, want := invalid(p), invalid(fresh); !slices.Equal(got, want) {
			t.Fatalf("step %d: refused are %v, want %v", step, got, want)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if !proto.Equal(values[key], want[key]) {
				t.Fatalf("step %d: %s\nhave %v\nwant %v", step, key, values[key], want[key])
			}
		}
		if len(values) != len(want) {
			t.Fatalf("step %d: %d values, want %d", step, len(values), len(want))
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
