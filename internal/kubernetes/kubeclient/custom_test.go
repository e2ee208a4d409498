package kubeclient

import (
	"slices"
	"testing"
	"time"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func noDefinition() map[string]error {
	return map[string]error{cnp.Resource: apierrors.NewNotFound(schema.GroupResource{Group: cnp.Group, Resource: cnp.Resource}, "")}
}

func TestDefinitionThatComesAndGoes(t *testing.T) {
	s := newServer(cluster()...)
	s.fail(noDefinition())
	source, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all[1:]...)
	if p := source.Problems(); len(p) > 0 {
		t.Errorf("a definition that is absent is no problem: %q", p)
	}

	s.fail(nil)
	for w := await(t, "watch", s.watching); w.resource != cnp.Resource; w = await(t, "watch", s.watching) {
	}
	policies := s.custom.Resource(cnp.GroupVersionResource)
	if _, err := policies.Create(t.Context(), clusterPolicy("later"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, ok := wantReport(t, reports, true, "clusternetworkpolicy later").Set[0].(*cnp.ClusterNetworkPolicy)
	if !ok || got.Spec.Tier != cnp.Admin || got.Spec.Priority != 7 || got.Spec.Subject.Namespaces == nil {
		t.Errorf("got %+v", got)
	}
	if err := policies.Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "no clusternetworkpolicy later")
}

func TestObjectsOfARemovedDefinitionAreGone(t *testing.T) {
	s := newServer(cluster()...)
	_, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all...)
	watches := s.awaitWatches(t)
	s.fail(noDefinition())
	watches[cnp.Resource].Stop()
	wantReport(t, reports, true, "no clusternetworkpolicy admin")
}

func noServiceCIDRs() map[string]error {
	return map[string]error{serviceCIDRs.Resource: apierrors.NewNotFound(serviceCIDRs.GroupResource(), "")}
}

// Kubernetes 1.32 has no ServiceCIDRs in networking.k8s.io/v1. They appear with its upgrade.
func TestClusterWithoutServiceCIDRs(t *testing.T) {
	s := newServer(cluster()...)
	s.fail(noServiceCIDRs())
	source, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all[:len(all)-1]...)
	if p := source.Problems(); len(p) > 0 {
		t.Errorf("the cluster lacks ServiceCIDRs: %q", p)
	}
	s.fail(nil)
	for w := await(t, "watch", s.watching); w.resource != serviceCIDRs.Resource; w = await(t, "watch", s.watching) {
	}
	if _, err := s.custom.Resource(serviceCIDRs).Create(t.Context(), serviceCIDR("later", "10.96.0.0/12"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cidrs, ok := wantReport(t, reports, true, "servicecidr later").Set[0].(*networkingv1.ServiceCIDR)
	if !ok || !slices.Equal(cidrs.Spec.CIDRs, []string{"10.96.0.0/12"}) {
		t.Errorf("got %+v", cidrs)
	}
}

func TestServiceCIDRsComeAndGo(t *testing.T) {
	s := newServer(cluster()...)
	_, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all...)
	s.awaitWatches(t)
	cidrs := s.custom.Resource(serviceCIDRs)
	if _, err := cidrs.Create(t.Context(), serviceCIDR("second", "10.112.0.0/16"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "servicecidr second")
	if err := cidrs.Delete(t.Context(), "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "no servicecidr second")
}
