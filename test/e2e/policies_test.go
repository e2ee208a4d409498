package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

// A NetworkPolicy denies, and a ClusterNetworkPolicy of the tier Admin overrides it until its
// definition is deleted. The node always reaches its own pods, so that kubelet's probes succeed.
func TestPoliciesOfKubernetesApply(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "policies")
	first, second := n.pair()
	another := newNamespace(t, "elsewhere").pod("third", "node1")
	all := []corev1.Pod{first, second, another}
	reached := func(wanted string) {
		t.Helper()
		await.That(t, "reached: "+wanted, func() error {
			var list []string
			for _, from := range all {
				for _, to := range []corev1.Pod{first, second} {
					if from.Name != to.Name && fetch(t, endpoint(t, from), to) == nil {
						list = append(list, from.Name+" → "+to.Name)
					}
				}
			}
			if got := strings.Join(list, ", "); got != wanted {
				return fmt.Errorf("reached: %s", got)
			}
			return nil
		})
		for _, pod := range []corev1.Pod{first, second} {
			if err := fetch(t, nodeEndpoint(t, pod.Spec.NodeName), pod); err != nil {
				t.Errorf("%s does not reach its own pod %s: %v", pod.Spec.NodeName, pod.Name, err)
			}
		}
	}
	const (
		definition = "customresourcedefinition/clusternetworkpolicies.policy.networking.k8s.io"

		everybody = "first → second, second → first, third → first, third → second"
		friends   = "first → second, second → first"
	)
	reached(everybody)
	n.apply(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: isolate}
spec: {podSelector: {}, policyTypes: [Ingress]}
`)
	reached("")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		if _, err := cluster.Kubectl(ctx, "delete", definition, "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	definitions, err := os.Open("../../deploy/contiv-crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer definitions.Close()
	if _, err := cluster.KubectlInput(t.Context(), definitions, "apply", "-f", "-"); err != nil { // KSR follows later definitions
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Established", definition, "--timeout=30s")
	const policy = `apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: friends}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: policies}}}
  ingress:
  - action: Accept
    from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: policies}}}]
    protocols: [{tcp: {destinationPort: {number: 8080}}}]
`
	n.apply(policy)
	reached(friends)
	if _, err := lab.Ping(t.Context(), endpoint(t, first), endpoint(t, second)); err == nil {
		t.Error("a ping passes, and only port 8080 is allowed")
	}
	n.kubectl("delete", "clusternetworkpolicy", "friends")
	reached("")
	n.apply(policy)
	reached(friends)
	n.kubectl("delete", definition) // and with it its objects
	reached("")
	n.kubectl("delete", "networkpolicy", "isolate")
	reached(everybody)
}
