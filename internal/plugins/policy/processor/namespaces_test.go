package processor

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/api/contiv/policy"
)

func TestNamespacesWithoutPoliciesAreForgotten(t *testing.T) {
	p := New("node1")
	for i := range 10 {
		np := &policy.Policy{Name: "web", Namespace: fmt.Sprint("run", i), Pods: &policy.Policy_LabelSelector{}, PolicyType: policy.Policy_PolicyType(i % 4)}
		p.SetPolicy(np)
		p.SetPolicy(np)
		if len(p.perNamespace) != 1 {
			t.Fatalf("with a policy in one namespace: %v", p.perNamespace)
		}
		p.DeletePolicy(PolicyID{Namespace: np.Namespace, Name: np.Name})
		if len(p.perNamespace)+len(p.policies)+len(p.about) > 0 {
			t.Errorf("still known: %v, %v, %v", p.perNamespace, p.policies, p.about)
		}
	}
}
