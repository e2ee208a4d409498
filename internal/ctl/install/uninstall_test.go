package install

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/kube"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// Everything made by agents and KSR is removed, and nothing else.
func TestRemnantsAreRemoved(t *testing.T) {
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: nodeCondition, Status: corev1.ConditionTrue},
	}}}
	request := func(name, signer string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "contiv-etcd-ca"}}
	var said strings.Builder
	client := fake.NewSimpleDynamicClient(scheme.Scheme, node, secret, request("ours", certificateSigner), request("theirs", "kubernetes.io/kubelet-serving"))
	client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) { // the fake client needs a type
		before, _ := json.Marshal(node)
		after, err := strategicpatch.StrategicMergePatch(before, action.(clienttesting.PatchAction).GetPatch(), node)
		if err != nil {
			return true, nil, err
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(after, &object.Object); err != nil {
			return true, nil, err
		}
		return true, object, client.Tracker().Update(kube.Nodes, object, "")
	})
	c := &Cluster{client: &kube.Client{Interface: client}, out: &said}
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
	requests, err1 := kube.List[certificatesv1.CertificateSigningRequest](t.Context(), client.Resource(kube.SigningRequests), "")
	got, err2 := kube.Get[corev1.Node](t.Context(), client.Resource(kube.Nodes), "node1")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if len(requests) != 1 || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != corev1.NodeReady {
		t.Errorf("of others: %v, %v", requests, got.Status.Conditions)
	}
}
