package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

func needCluster(t *testing.T) {
	t.Helper()
	if cluster == nil {
		t.Skip("needs a Kubernetes cluster: run make e2e")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(diagnosis())
		}
	})
}

// needKernel skips a test that VPP nodes do not pass, with the reason.
func needKernel(t *testing.T, why string) {
	t.Helper()
	needCluster(t)
	if slices.ContainsFunc(cluster.Nodes(), lab.Node.OnVPP) {
		t.Skip("make e2e E2E_VSWITCH=kernel; not with VPP: " + why)
	}
}

// namespace is a Kubernetes namespace that is deleted after the test.
type namespace struct {
	*testing.T
	name string
}

func newNamespace(t *testing.T, name string) namespace {
	t.Helper()
	n := namespace{t, name}
	n.kubectl("create", "namespace", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		if _, err := cluster.Kubectl(ctx, "delete", "namespace", name, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	n.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	return n
}

// kubectl works in the namespace.
func (n namespace) kubectl(args ...string) string {
	n.Helper()
	return kubectl(n.T, append([]string{"--namespace", n.name}, args...)...)
}

// kubectl must succeed. Waiting commands get a timeout.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// apply creates objects in the namespace.
func (n namespace) apply(manifest string) {
	n.Helper()
	_, err := cluster.KubectlInput(n.Context(), strings.NewReader(manifest), "--namespace", n.name, "apply", "-f", "-")
	if err != nil {
		n.Fatal(err)
	}
}

// webPod is a pod that answers HTTP on port 8080 with its name, with a probe.
const webPod = `
  terminationGracePeriodSeconds: 1
  dnsPolicy: Default
  containers:
  - name: web
    image: ` + e2e.BusyboxImage + `
    command: [sh, -c, 'echo $POD_NAME >/tmp/index.html; echo started; exec httpd -f -v -p 8080 -h /tmp']
    env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    readinessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1}
`

// pod starts a web pod on a node and waits until it is ready.
func (n namespace) pod(name, node string) corev1.Pod {
	n.Helper()
	n.start(name, node)
	return n.ready(name)
}

func (n namespace) start(name, node string) {
	n.Helper()
	n.apply(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  nodeSelector: {kubernetes.io/hostname: %s}%s", name, node, webPod))
}

// ready returns the pod when it is ready.
func (n namespace) ready(name string) corev1.Pod {
	n.Helper()
	n.kubectl("wait", "pod/"+name, "--for=condition=Ready", "--timeout=60s")
	var pod corev1.Pod
	get(n.T, &pod, "pod", name, "--namespace", n.name)
	return pod
}

// workload returns a Deployment or StatefulSet of web pods, spread over the nodes.
func workload(kind, name string, replicas int, extra string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata:
  name: %s
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
%s  template:
    metadata: {labels: {app: %s}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %s}}}
    %s`, kind, name, replicas, name, extra, name, name, strings.ReplaceAll(webPod[1:], "\n", "\n    "))
}

// pair starts a web pod on each of two nodes, with the same names in every test.
func (n namespace) pair() (first, second corev1.Pod) {
	n.Helper()
	n.start("first", "node1")
	n.start("second", "node2")
	return n.ready("first"), n.ready("second")
}

// pods returns the pods of the namespace, by name.
func (n namespace) pods() []corev1.Pod {
	n.Helper()
	var list corev1.PodList
	get(n.T, &list, "pods", "--namespace", n.name)
	return list.Items
}

func get(t *testing.T, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if err := cluster.Get(ctx, into, args...); err != nil {
		t.Fatal(err)
	}
}

// endpoint returns the pod as a source and target of packets.
func endpoint(t *testing.T, pod corev1.Pod) lab.Endpoint {
	t.Helper()
	e, err := cluster.Endpoint(t.Context(), pod.Spec.NodeName, pod.Namespace, pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func nodeEndpoint(t *testing.T, name string) lab.Endpoint {
	t.Helper()
	for _, n := range cluster.Nodes() {
		if n.Name == name {
			return n.Endpoint()
		}
	}
	t.Fatalf("no node %s", name)
	return lab.Endpoint{}
}

// fetch gets the page of a web pod from an endpoint.
func fetch(t *testing.T, from lab.Endpoint, pod corev1.Pod) error {
	t.Helper()
	got, err := page(t, from.Netns, net.JoinHostPort(pod.Status.PodIP, "8080"))
	if err == nil && got != pod.Name {
		err = fmt.Errorf("%s answers %q, not %q", pod.Status.PodIP, got, pod.Name)
	}
	return err
}

// page gets the page of a web pod from a network namespace.
func page(t *testing.T, netns, address string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/index.html", nil)
	if err != nil {
		return "", err
	}
	response, err := e2e.HTTPClient(netns).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(data)), err
}

// startStream sends datagrams from one pod to another and back, every 2 ms. The returned function
// stops it and fails the test for each lost one.
func startStream(t *testing.T, from, to corev1.Pod) (stop func()) {
	t.Helper()
	s, err := lab.StartStream(endpoint(t, from), endpoint(t, to), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		report := s.Stop()
		measured(t, "%s", report)
		if report.Lost > 0 || report.Sent == 0 {
			t.Errorf("%s: %s", s.Path, report)
		}
	}
}
