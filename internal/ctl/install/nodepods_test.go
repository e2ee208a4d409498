package install

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/contiv/contiv/internal/ctl/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// A new cluster has no service accounts yet and refuses pods.
func TestPodsAreCreatedWhenThereIsAServiceAccount(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	young := apierrors.NewForbidden(pods, "contiv-preflight-", errors.New(`error looking up service account kube-system/default: serviceaccount "default" not found`))
	denied := apierrors.NewForbidden(pods, "contiv-preflight-", errors.New("violates PodSecurity"))
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			answers []error
			want    error
		}{{nil, nil}, {[]error{young, young}, nil}, {[]error{young, denied}, denied}} {
			client, calls := fake.NewSimpleDynamicClient(scheme.Scheme), 0
			client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				if calls <= len(test.answers) {
					return true, nil, test.answers[calls-1]
				}
				return false, nil, nil
			})
			c := &Cluster{client: &kube.Client{Interface: client}}
			pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: Namespace}}
			if _, err := c.createPod(t.Context(), pod); !errors.Is(err, test.want) {
				t.Errorf("after %v: %v", test.answers, err)
			}
			if _, err := c.ours(kube.Pods).Get(t.Context(), "a", metav1.GetOptions{}); (err == nil) != (test.want == nil) {
				t.Errorf("after %v: the pod: %v", test.answers, err)
			}
		}
	})
}
