package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/test/lab"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

func alive(t testing.TB, l *lab.Lab, role string) bool {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	return st.Processes[role].Alive()
}

func TestProcessesStopAndStart(t *testing.T) {
	opts := options(t)
	var lines []string
	opts.Progress = func(line string) { lines = append(lines, line) }
	l := up(t, opts)
	ctx := t.Context()
	for _, test := range []struct {
		role        string
		stop, start func() error
	}{
		{"agent/node1", func() error { return l.KillAgent(ctx, "node1") }, func() error { return l.StartAgent(ctx, "node1") }},
		{"agent/node2", func() error { return l.StopAgent(ctx, "node2") }, func() error { return l.StartAgent(ctx, "node2") }},
		{"etcd", func() error { return l.StopEtcd(ctx) }, func() error { return l.StartEtcd(ctx) }},
	} {
		for range 2 {
			if err := test.stop(); err != nil {
				t.Fatal(err)
			}
			if alive(t, l, test.role) {
				t.Fatalf("%s still runs", test.role)
			}
		}
		for range 2 {
			if err := test.start(); err != nil {
				t.Fatal(err)
			}
			if !alive(t, l, test.role) {
				t.Fatalf("%s does not run", test.role)
			}
		}
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range l.Health(ctx, st) {
		if !h.Alive || h.NotReady != nil {
			t.Errorf("%s: alive %v, not ready because %v", h.Role, h.Alive, h.NotReady)
		}
	}
	for _, want := range []string{"etcd is stopped already", "etcd runs already", "node node1: the agent is stopped already", "node node2: the agent runs already"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not said", want)
		}
	}
	requireError(t, l.KillAgent(ctx, "node3"), `has no node "node3" (did you mean "node1"?); it has: node1 node2`)
	_, err = l.Credentials(ctx, "ops", access.Client{Nodes: []string{"node9"}}, t.TempDir())
	requireError(t, err, `has no node "node9"`)
	_, err = st.Endpoint("outsde")
	requireError(t, err, `has no pod and no node "outsde" (did you mean "outside"?)`)
}

func TestNodesComeAndGo(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	node, err := l.AddNode(t.Context(), "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if node.Address.String() != "192.168.16.3/24" {
		t.Errorf("address %s", node.Address)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_edge-1.yaml", "node_node1.yaml", "node_node2.yaml")
	if err := l.DelNode(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_edge-1.yaml", "node_node2.yaml")
	requireFiles(t, l, "nodes", "edge-1", "node2")
	if _, err := os.Stat(lab.NetnsPath(opts.Name + "-node1")); err == nil {
		t.Error("the namespace of node1 is still there")
	}
	config, err := os.ReadFile(l.CtlConfig())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(config), "node1") || !strings.Contains(string(config), "edge-1: unix://"+l.AgentSocket("edge-1")) {
		t.Errorf("configuration of contivctl:\n%s", config)
	}
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = l.AddNode(t.Context(), "node1") // fails at once, because the lab stopped etcd on purpose
	requireError(t, err, "etcd does not run: "+lab.Command(opts.Name, "etcd start")+" starts it")
	requireFiles(t, l, "nodes", "edge-1", "node2")
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if node, err = l.AddNode(t.Context(), "node1"); err != nil || node.Index != 1 {
		t.Errorf("node1 again: %+v, %v", node, err)
	}
	for range 10 { // repeatedly, because the kernel removes namespaces asynchronously
		if err := l.DelNode(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.AddNode(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
	}
	m, err := l.Matrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

func TestForeignNamespaceOfAPodOrNodeIsLeftAlone(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	for name, add := range map[string]func() error{
		opts.Name + "-node1-web": func() error {
			_, err := l.AddPod(t.Context(), lab.PodSpec{Name: "web", Node: "node1"})
			return err
		},
		opts.Name + "-node3": func() error {
			_, err := l.AddNode(t.Context(), "node3")
			return err
		},
	} {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		defer exec.Command("ip", "netns", "del", name).Run()
		requireError(t, add(), "exists already and is not this lab's")
		if _, err := os.Stat(lab.NetnsPath(name)); err != nil {
			t.Errorf("the foreign namespace %s was removed", name)
		}
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Nodes) != 2 || len(st.Pods) != 0 || len(st.Namespaces) != 4 {
		t.Errorf("state: nodes %v, pods %v, namespaces %v", st.Nodes, st.Pods, st.Namespaces)
	}
}

func TestNodeThatCannotStartLeavesNothing(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	setBehaviour(t, opts.BinDir, "contiv-agent.dies")
	_, err := l.AddNode(t.Context(), "node3")
	requireError(t, err, "flux capacitor")
	requireFiles(t, l, "nodes", "node1", "node2")
	if nodes, err := l.Nodes(); err != nil || len(nodes) != 2 {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
}

func TestPodLikeKubeletAndRuntime(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	pod, err := l.AddPod(t.Context(), lab.PodSpec{Namespace: "shop", Name: "web", Node: "node1"})
	if err != nil {
		t.Fatal(err)
	}
	calls := cniCalls(t, opts)
	if len(calls) != 1 {
		t.Fatalf("CNI calls: %q", calls)
	}
	args := fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s", pod.ContainerID, pod.UID)
	nodeNS, err := l.Exec(t.Context(), "node1", "readlink", "/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("ADD %s %s %s", args, lab.NetnsPath(pod.Netns), strings.TrimSpace(nodeNS))
	if diff := cmp.Diff(want, calls[0]); diff != "" {
		t.Errorf("CNI call (-want +got):\n%s", diff)
	}

	object := readPod(t, l, "pod_shop_web.yaml")
	if object.Status.PodIP != "10.1.1.2" || object.Status.HostIP != "192.168.16.1" || object.Status.Phase != corev1.PodRunning || object.Spec.NodeName != "node1" {
		t.Errorf("object: %+v", object)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "namespace_shop.yaml", "node_node1.yaml", "node_node2.yaml", "pod_shop_web.yaml")

	_, err = l.AddPod(t.Context(), lab.PodSpec{Namespace: "shop", Name: "web"})
	requireError(t, err, "has a pod shop/web already")
	if err := l.DelPod(t.Context(), "shop/web"); err != nil {
		t.Fatal(err)
	}
	if calls := cniCalls(t, opts); !strings.HasPrefix(calls[len(calls)-1], "DEL "+args) {
		t.Errorf("CNI calls: %q", calls)
	}
	if _, err := os.Stat(lab.NetnsPath(pod.Netns)); err == nil {
		t.Error("the namespace of the pod is still there")
	}
	requireError(t, l.DelPod(t.Context(), "shop/web"), "no pod \"shop/web\"")
}

func TestPodsSpreadOverNodes(t *testing.T) {
	l := up(t, options(t))
	pods, err := l.AddPods(t.Context(), 4, lab.PodSpec{Name: "a"}, lab.PodSpec{Name: "b"}, lab.PodSpec{Name: "c", Node: "node1"}, lab.PodSpec{Name: "d"})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, p := range pods {
		nodes = append(nodes, p.Node)
	}
	if diff := cmp.Diff([]string{"node1", "node2", "node1", "node2"}, nodes); diff != "" {
		t.Error(diff)
	}
	if err := l.DelNode(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	left, err := l.Pods()
	if err != nil || len(left) != 2 {
		t.Errorf("pods left: %+v, %v", left, err)
	}
}

func TestNodeWithoutAgentLeavesWithItsPods(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	pod, err := l.AddPod(t.Context(), lab.PodSpec{Name: "a", Node: "node1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.KillAgent(t.Context(), "node1"), l.DelNode(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lab.NetnsPath(pod.Netns)); err == nil {
		t.Error("the namespace of the pod is still there")
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_node2.yaml")
	if pods, err := l.Pods(); err != nil || len(pods) > 0 {
		t.Errorf("pods: %v, %v", pods, err)
	}
}

func TestPodThatCannotBeWiredLeavesNothing(t *testing.T) {
	opts := options(t, "contiv-cni.fails")
	l := up(t, opts)
	_, err := l.AddPod(t.Context(), lab.PodSpec{Name: "web"})
	requireError(t, err, "the pod's tap is on fire")
	if calls := cniCalls(t, opts); len(calls) != 2 || !strings.HasPrefix(calls[1], "DEL") {
		t.Errorf("CNI calls: %q", calls)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_node1.yaml", "node_node2.yaml")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Pods) != 0 || len(st.Namespaces) != 4 {
		t.Errorf("pods %v, namespaces %v", st.Pods, st.Namespaces)
	}
}

func TestApplyAndDelete(t *testing.T) {
	l := up(t, options(t))
	file := filepath.Join(t.TempDir(), "app.yaml")
	apply := func(content string) ([]string, error) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return l.Apply(t.Context(), file)
	}
	app := `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: %s}}
spec: {nodeName: node2, containers: [{name: c, image: i}]}
`
	done, err := apply(fmt.Sprintf(app, "web"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Service default/web given to KSR: cluster IP 10.96.0.100", "Pod default/web runs on node2 with address 10.1.1.2"}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		label string
		want  []string
	}{
		{"web", []string{"Service default/web unchanged: cluster IP 10.96.0.100", "Pod default/web unchanged"}},
		{"changed", []string{"Service default/web unchanged: cluster IP 10.96.0.100", "Pod default/web given to KSR"}},
	} {
		done, err := apply(fmt.Sprintf(app, c.label))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, done); diff != "" {
			t.Error(diff)
		}
	}
	object := readPod(t, l, "pod_default_web.yaml")
	if object.Labels["app"] != "changed" || object.Status.PodIP != "10.1.1.2" {
		t.Errorf("object after the change: %+v", object)
	}
	if _, err := l.Delete(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_node1.yaml", "node_node2.yaml")
	if pods, err := l.Pods(); err != nil || len(pods) > 0 {
		t.Errorf("pods: %v, %v", pods, err)
	}

	labelled := "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {env: prod}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: team}\nspec: {nodeName: node1, containers: [{name: c, image: i}]}\n"
	if _, err := apply(labelled); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(l.Path("manifests", "namespace_team.yaml")); err != nil || !strings.Contains(string(data), "env: prod") {
		t.Errorf("a pod takes the labels of its namespace away: %s%v", data, err)
	}
	if _, err := l.Delete(t.Context(), file); err != nil {
		t.Fatal(err)
	}

	for content, want := range map[string]string{
		"kind: Node\nmetadata: {name: edge}": "node add edge adds one",
		"kind: Pod":                          "needs apiVersion, kind and metadata.name",
		"kind: [Pod":                         "app.yaml: document 1: invalid YAML: line 1",
		"- a":                                "app.yaml: document 1: no Kubernetes object",
		"# nothing":                          "app.yaml has no Kubernetes object",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodename: node1}": `app.yaml: document 1: Pod default/p: spec.nodename: no such field: did you mean "nodeName"?`,
		"{": "document 1",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: y}\nspec: {nodeName: node1}":                                                     "metadata.namespace: must be a string, not true: put it in quotes",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: 1}\nspec: {ports: [{port: 80}]}":                                           "metadata.namespace: must be a string, not 1",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: good}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: node1}\nspec: {nodeName: node2}": "nothing was applied",
		serviceAt("a", 30080) + "---\n" + serviceAt("b", 30080):                                                                                     "node port 30080 is used by service default/a",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: good}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: bad, name: bad}\n":           "nothing was applied",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 0}]}}]":                   "document 1, item 1: Service default/bad: spec.ports[0].port",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: node9}":                                                                   "it has: node1 node2",
	} {
		_, err := apply(content)
		requireError(t, err, want)
	}
	requireFiles(t, l, "manifests", "namespace_default.yaml", "node_node1.yaml", "node_node2.yaml")
	if _, err := apply(fmt.Sprintf(app, "web")); err != nil {
		t.Fatal(err)
	}
	if err := l.DelPod(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	done, err = l.Delete(t.Context(), file)
	if !errors.Is(err, lab.ErrNotFound) || !strings.Contains(err.Error(), "Pod default/web: not found") || !slices.Equal(done, []string{"Service default/web deleted"}) {
		t.Errorf("deleting partly deleted objects: %q, %v", done, err)
	}
}

func serviceAt(name string, nodePort int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {type: NodePort, ports: [{port: 80, nodePort: %d}]}\n", name, nodePort)
}

func TestApplyLongNames(t *testing.T) {
	l := up(t, options(t))
	name := strings.Repeat("a", 250) + "-1"
	file := filepath.Join(t.TempDir(), "long.yaml")
	content := fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %[1]sx}\nspec: {podSelector: {}}\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %[1]sy}\nspec: {podSelector: {}}\n---\n"+
		"apiVersion: v1\nkind: Pod\nmetadata: {name: %[1]sx}\nspec: {nodeName: node1, containers: [{name: c, image: i}]}\n", name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := l.Apply(t.Context(), file)
	if err != nil || len(done) != 3 {
		t.Fatalf("%q, %v", done, err)
	}
	files, err := os.ReadDir(l.Path("manifests"))
	if err != nil || len(files) != 6 {
		t.Errorf("%v, %v: want a namespace, two nodes and three objects", files, err)
	}
	if done, err = l.Delete(t.Context(), file); err != nil || len(done) != 3 {
		t.Errorf("%q, %v", done, err)
	}
}

func TestEndpointsOfServices(t *testing.T) {
	l := up(t, options(t))
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	require := func(when string, addresses ...string) {
		t.Helper()
		data, err := os.ReadFile(l.Path("manifests", "endpointslice_default_web-lab1.yaml"))
		if err != nil && !(errors.Is(err, os.ErrNotExist) && len(addresses) == 0) {
			t.Fatal(when, err)
		}
		slice := &discoveryv1.EndpointSlice{}
		if err := yaml.Unmarshal(data, slice); err != nil {
			t.Fatal(when, err)
		}
		var found []string
		for _, e := range slice.Endpoints {
			found = append(found, e.Addresses...)
		}
		if !slices.Equal(found, addresses) {
			t.Errorf("%s: endpoints %q, want %q", when, found, addresses)
		}
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	require("without pods")
	web, err := l.AddPod(t.Context(), lab.PodSpec{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AddPod(t.Context(), lab.PodSpec{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	require("with a pod", web.Address.String())
	if err := l.DelPod(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	require("without it again")
}

func TestStreamReportsLosses(t *testing.T) {
	l := up(t, options(t))
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	from, to := st.Nodes[0].Endpoint(), st.Nodes[1].Endpoint()
	stream, err := lab.StartStream(from, to, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := stream.Await(ctx, 20); err != nil {
		t.Fatal(err)
	}
	calm := stream.Stop()
	if calm.Sent < 20 || calm.Lost != 0 || calm.LongestGap != 0 {
		t.Errorf("undisturbed: %+v", calm)
	}

	stream, err = lab.StartStream(from, to, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Await(ctx, 20); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"down", "up"} {
		if _, err := l.Exec(ctx, "node2", "ip", "link", "set", "eth0", state); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Await(ctx, 20); err != nil {
		t.Fatal(err)
	}
	if cut := stream.Stop(); cut.Lost == 0 || cut.LongestGap < time.Millisecond || cut.Lost > cut.Sent-40 {
		t.Errorf("cut for a moment: %+v", cut)
	}
}

func TestMatrixNamesWhatFails(t *testing.T) {
	l := up(t, options(t))
	if _, err := l.Exec(t.Context(), "outside", "ip", "route", "del", "192.168.16.0/24"); err != nil {
		t.Fatal(err)
	}
	m, err := l.Matrix(t.Context(), "node1", "node2", "outside")
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, c := range m.Cells {
		if c.Err() != nil {
			failed = append(failed, c.From.Name+" "+c.To.Name)
		}
	}
	if diff := cmp.Diff([]string{"node1 outside", "node2 outside"}, failed); diff != "" {
		t.Error(diff)
	}
	var printed strings.Builder
	if err := m.Write(&printed); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAIL/FAIL", "node → node", "2 of 2", "node → outside", "0 of 2", "FAIL  node1 → outside: ICMP: 3 packets transmitted"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("the printed matrix lacks %q:\n%s", want, printed.String())
		}
	}
}

func cniCalls(t testing.TB, opts lab.Options) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(opts.BinDir, "cni.calls"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func readPod(t testing.TB, l *lab.Lab, file string) *corev1.Pod {
	t.Helper()
	data, err := os.ReadFile(l.Path("manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func requireFiles(t testing.TB, l *lab.Lab, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(l.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in %s (-want +got):\n%s", dir, diff)
	}
}

func TestDeletedRouteThatComesBack(t *testing.T) {
	l := up(t, options(t))
	route := netip.MustParsePrefix("198.51.100.7/32")
	ip := func(args ...string) {
		t.Helper()
		if _, err := l.Exec(t.Context(), "node1", "ip", args...); err != nil {
			t.Fatal(err)
		}
	}
	ip("route", "add", route.String(), "via", lab.RouterAddress.Addr().String())

	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := l.DeleteRoute(short, "node1", route)
	requireError(t, err, "the route to 198.51.100.7/32 did not come back")

	ip("route", "add", route.String(), "via", lab.RouterAddress.Addr().String())
	putBackRoutes(t, lab.NetnsPath(l.Name()+"-node1"))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	damage, err := l.DeleteRoute(ctx, "node1", route)
	if err != nil {
		t.Fatal(err)
	}
	if damage.Deleted.IsZero() || damage.Restored.Before(damage.Deleted) || !strings.HasSuffix(damage.Command, "ip route del 198.51.100.7/32") {
		t.Errorf("%+v", damage)
	}
}

func putBackRoutes(t testing.TB, path string) {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	updates, done, ended := make(chan netlink.RouteUpdate), make(chan struct{}), make(chan struct{})
	if err := netlink.RouteSubscribeAt(ns, updates, done); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for u := range updates {
			if u.Type == unix.RTM_DELROUTE {
				h.RouteAdd(&u.Route)
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		h.Close()
		ns.Close()
	})
}

func TestConfigOfNodes(t *testing.T) {
	opts := options(t)
	opts.Nodes, opts.ContivConfig = 1, "ipamConfig: {podSubnetCIDR: 10.2.0.0/16}\n"
	up(t, opts)
	l, err := lab.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AddNode(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	if conf, err := os.ReadFile(l.Path("nodes", "late", "contiv.conf")); err != nil || !strings.Contains(string(conf), opts.ContivConfig) {
		t.Errorf("%s, %v", conf, err)
	}
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte("kind: Service\napiVersion: v1\nmetadata: {name: web}\nspec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := l.Apply(t.Context(), file); err == nil || !strings.Contains(err.Error(), "not configured for dual-stack services") {
		t.Errorf("%q, %v", done, err)
	}
}
