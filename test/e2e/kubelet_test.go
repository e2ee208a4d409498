package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	corev1 "k8s.io/api/core/v1"
)

func TestExecLogsAndPortForward(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "streams")
	n.pod("web", "node2")
	if out := n.kubectl("exec", "web", "--", "hostname"); out != "web" {
		t.Errorf("exec: %q", out)
	}
	if out := n.kubectl("logs", "web"); !strings.HasPrefix(out, "started") {
		t.Errorf("logs: %q", out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	forward := cluster.KubectlCommand(ctx, "--namespace", n.name, "port-forward", "pod/web", ":8080")
	stdout, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	state, err := cluster.Lab().State()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Start(forward, state.Underlay()); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); forward.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var port int
	if _, scanErr := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d", &port); err != nil || scanErr != nil {
		t.Fatalf("port-forward says %q: %v", line, err)
	}
	if got, err := page(t, state.Underlay(), fmt.Sprintf("127.0.0.1:%d", port)); err != nil || got != "web" {
		t.Errorf("port-forward: %q, %v", got, err)
	}
}

func TestFailedLivenessProbeRestartsTheContainerAndKeepsTheAddress(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "probes")
	n.apply(`apiVersion: v1
kind: Pod
metadata: {name: web}
spec:` + strings.Replace(webPod, "readinessProbe:", "livenessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1, failureThreshold: 1}\n    readinessProbe:", 1))
	before := n.ready("web")
	n.kubectl("exec", "web", "--", "rm", "/tmp/index.html")
	await.That(t, "the container is restarted", func() error {
		var pod corev1.Pod
		get(t, &pod, "pod", "web", "--namespace", n.name)
		if s := pod.Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount == 0 {
			return fmt.Errorf("statuses: %v", s)
		}
		return nil
	})
	after := n.ready("web")
	if after.Status.PodIP != before.Status.PodIP {
		t.Errorf("%s became %s", before.Status.PodIP, after.Status.PodIP)
	}
	if err := fetch(t, nodeEndpoint(t, "node1"), after); err != nil {
		t.Error(err)
	}
}

func TestStatefulSetPodsAreRecreatedUnderTheSameName(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "stateful")
	n.apply(workload("StatefulSet", "db", 2, "  serviceName: db\n  podManagementPolicy: Parallel\n"))
	n.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
	for range 3 {
		var old corev1.Pod
		get(t, &old, "pod", "db-0", "--namespace", n.name)
		n.kubectl("delete", "pod", "db-0")
		await.That(t, "db-0 is another pod", func() error {
			var pods corev1.PodList
			get(t, &pods, "pods", "--namespace", n.name)
			for _, p := range pods.Items {
				if p.Name == "db-0" && p.UID != old.UID {
					return nil
				}
			}
			return fmt.Errorf("db-0 is not there")
		})
		pod := n.ready("db-0")
		checkReachable(t, pod)
	}
}

// checkReachable requires that the pod is connected as its status says.
func checkReachable(t *testing.T, pod corev1.Pod) {
	t.Helper()
	if held := allocation(t, pod); held != pod.Status.PodIP {
		t.Errorf("%s/%s: status %s, allocated %q", pod.Namespace, pod.Name, pod.Status.PodIP, held)
	}
	for _, node := range cluster.Nodes() {
		if err := fetch(t, node.Endpoint(), pod); err != nil {
			t.Errorf("%s → %s/%s: %v", node.Name, pod.Namespace, pod.Name, err)
		}
	}
}

func TestForceDeletedPodIsReplacedUnderTheSameName(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "forced")
	n.pod("web", "node1")
	// The object is deleted before its sandbox.
	n.kubectl("delete", "pod", "web", "--force", "--grace-period=0")
	checkReachable(t, n.pod("web", "node1"))
	n.kubectl("delete", "pod", "web", "--force", "--grace-period=0")
	checkReachable(t, n.pod("web", "node2"))
}

func TestKubeletRestart(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "kubelet")
	first, second := n.pair()
	stop := startStream(t, first, second)
	if err := cluster.StopKubelet(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartKubelet(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	checkReachable(t, n.pod("new", "node2"))
	stop()
	if again := n.ready("second"); again.Status.PodIP != second.Status.PodIP || again.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod has changed: %v", again.Status)
	}
}

func TestContainerdRestart(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "containerd")
	first, second := n.pair()
	stop := startStream(t, first, second)
	if err := cluster.StopContainerd(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartContainerd(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	checkReachable(t, n.pod("new", "node2"))
	stop()
	if again := n.ready("second"); again.Status.PodIP != second.Status.PodIP || again.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod has changed: %v", again.Status)
	}
}

func TestNodeIsDrainedAndReturns(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "drain")
	n.apply(strings.Replace(workload("Deployment", "web", 4, ""), "DoNotSchedule", "ScheduleAnyway", 1))
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	t.Cleanup(func() { cluster.Kubectl(context.Background(), "uncordon", "node2") })
	kubectl(t, "drain", "node2", "--ignore-daemonsets", "--force", "--timeout=60s")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	for _, pod := range n.pods() {
		if pod.DeletionTimestamp == nil && pod.Spec.NodeName != "node1" {
			t.Errorf("%s is still on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	kubectl(t, "uncordon", "node2")
	checkReachable(t, n.pod("back", "node2"))
}
