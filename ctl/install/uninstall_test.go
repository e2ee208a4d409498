package install

import (
	"errors"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Everything that agents and KSR have made is removed, and nothing else.
func TestRemnantsAreRemoved(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: nodeCondition, Status: corev1.ConditionTrue},
	}}}
	request := func(name, signer string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "contiv-etcd-ca"}}
	var said strings.Builder
	c := &Cluster{client: fake.NewClientset(node, secret, request("ours", certificateSigner), request("theirs", "kubernetes.io/kubelet-serving")), out: &said}
	if err := c.removeRemnants(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "Secret kube-system/contiv-etcd-ca deleted\nCertificateSigningRequest ours deleted\ncondition ContivReady of node node1 deleted\n"
	if said.String() != want {
		t.Errorf("it says %q", said.String())
	}
	if left, err := c.remnants(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	requests, err1 := c.client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	got, err2 := c.client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if len(requests.Items) != 1 || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != corev1.NodeReady {
		t.Errorf("of others: %v, %v", requests.Items, got.Status.Conditions)
	}
}
