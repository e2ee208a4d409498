package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// answering returns a client of an API server with fixed answers by "METHOD path?query". Other
// requests get 404.
func answering(t *testing.T, answers map[string]string) *Client {
	t.Helper()
	c, _ := recording(t, answers)
	return c
}

func recording(t *testing.T, answers map[string]string) (c *Client, bodies map[string]string) {
	t.Helper()
	bodies = map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := r.Method + " " + r.URL.String()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("%s: %v", request, err)
		}
		bodies[request] = string(body)
		answer, ok := answers[request]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.HasPrefix(answer, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		if strings.Contains(answer, `"Status"`) {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, bodies
}

func TestVersionKindsAndLogs(t *testing.T) {
	c := answering(t, map[string]string{
		"GET /version":      `{"gitVersion": "v1.36.0"}`,
		"GET /api/v1":       `{"kind": "APIResourceList", "resources": [{"name": "pods", "kind": "Pod"}, {"name": "pods/eviction", "kind": "Eviction"}]}`,
		"GET /apis/apps/v1": `{"kind": "APIResourceList", "resources": [{"name": "daemonsets", "kind": "DaemonSet"}, {"name": "daemonsets/status", "kind": "DaemonSet"}]}`,
		"GET /apis/none/v1": `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "access denied"}`,
		"GET /api/v1/namespaces/kube-system/pods/p/log?container=agent": "said",
	})
	if v, err := c.Version(t.Context()); v != "v1.36.0" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	for version, want := range map[schema.GroupVersion]string{
		{Version: "v1"}:                    "map[Pod:/v1, Resource=pods]",
		{Group: "apps", Version: "v1"}:     "map[DaemonSet:apps/v1, Resource=daemonsets]",
		{Group: "policy", Version: "v1"}:   "map[]",
		{Group: "apps", Version: "v1beta"}: "map[]",
	} {
		if kinds, err := c.Kinds(t.Context(), version); fmt.Sprint(kinds) != want || err != nil {
			t.Errorf("%s has %v, %v, want %s", version, kinds, err, want)
		}
	}
	if _, err := c.Kinds(t.Context(), schema.GroupVersion{Group: "none", Version: "v1"}); !apierrors.IsForbidden(err) || err.Error() != "access denied" {
		t.Errorf("forbidden kinds: %v", err)
	}
	logs, err := c.Logs(t.Context(), "kube-system", "p", "agent")
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	if text, err := io.ReadAll(logs); string(text) != "said" || err != nil {
		t.Errorf("logs %q, %v", text, err)
	}
}

func TestTypedObjects(t *testing.T) {
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]}}`
	const sent = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n2", "terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]}, "status": {}}`
	const post, put = "POST /api/v1/namespaces/kube-system/pods?fieldManager=contivctl", "PUT /api/v1/namespaces/kube-system/pods/p/status"
	c, bodies := recording(t, map[string]string{
		"GET /api/v1/namespaces/kube-system/pods/p":         pod,
		"GET /api/v1/pods?labelSelector=app+in+%28a%2Cb%29": `{"apiVersion": "v1", "kind": "PodList", "items": [` + pod + `]}`,
		post: pod,
		put:  pod,
	})
	pods := c.Resource(Pods).Namespace("kube-system")
	got, err := Get[corev1.Pod](t.Context(), pods, "p")
	if err != nil {
		t.Fatal(err)
	}
	changed := got.DeepCopy()
	changed.Spec.NodeName = "n2"
	made, err1 := Create(t.Context(), pods, changed, metav1.CreateOptions{FieldManager: "contivctl"})
	updated, err2 := Update(t.Context(), pods, changed, "status")
	listed, err3 := List[corev1.Pod](t.Context(), c.Resource(Pods), "app in (a,b)")
	if err1 != nil || err2 != nil || err3 != nil || len(listed) != 1 {
		t.Fatal(err1, err2, err3, listed)
	}
	for how, p := range map[string]*corev1.Pod{"got": got, "made": made, "updated": updated, "listed": &listed[0]} {
		if p.Kind != "Pod" || p.Spec.NodeName != "n1" || *p.Spec.TerminationGracePeriodSeconds != 5 || p.Spec.Containers[0].Resources.Limits.Memory().Value() != 1<<30 {
			t.Errorf("%s: %v", how, p)
		}
	}
	for _, request := range []string{post, put} {
		if diff := cmp.Diff(fields(t, sent), fields(t, bodies[request])); diff != "" {
			t.Errorf("%s sends (+) something else than the object (-):\n%s", request, diff)
		}
	}
	if _, err := Get[corev1.Pod](t.Context(), pods, "q"); !apierrors.IsNotFound(err) {
		t.Errorf("no such pod: %v", err)
	}
}

func fields(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return object
}
