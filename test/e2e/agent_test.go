package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

func agentPod(t *testing.T, node string) corev1.Pod {
	t.Helper()
	var list corev1.PodList
	get(t, &list, "pods", "-n", "kube-system", "-l", "app in (contiv-agent, contiv-vpp)", "--field-selector", "spec.nodeName="+node)
	if len(list.Items) != 1 {
		t.Fatalf("%d agents on %s", len(list.Items), node)
	}
	return list.Items[0]
}

func restarts(pod corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

func TestKilledAgentComesBackAndLosesNoPacket(t *testing.T) {
	needKernel(t, "contiv-init starts the agent again, not kubelet")
	n := newNamespace(t, "killed")
	first, second := n.pair()
	stop := startStream(t, first, second)
	before := restarts(agentPod(t, "node1"))
	began := time.Now()
	if err := cluster.KillAgent("node1"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "kubelet has restarted the agent", func() error {
		if now := restarts(agentPod(t, "node1")); now == before {
			return fmt.Errorf("%d restarts", now)
		}
		return cluster.Agent("node1").Ready(t.Context())
	})
	measured(t, "the agent is back after %s", time.Since(began).Round(time.Millisecond))
	checkUntouched(t, "node1")
	checkReachable(t, n.pod("new", "node1"))
	stop()
}

// checkUntouched requires that a restarted agent found the network in order and changed nothing.
func checkUntouched(t *testing.T, node string) {
	t.Helper()
	txns, err := cluster.Agent(node).Transactions(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if len(txns) == 0 {
		t.Fatalf("the agent of %s has no transaction", node)
	}
	for _, op := range lab.Operations(txns[0]) {
		t.Errorf("the agent of %s: %s %s", node, op.Operation, op.Key)
	}
}

func TestRollingRestartOfTheAgentsLosesNoPacket(t *testing.T) {
	needKernel(t, "VPP ends with its pod")
	n := newNamespace(t, "rolling")
	first, second := n.pair()
	stop := startStream(t, first, second)
	began := time.Now()
	kubectl(t, "rollout", "restart", "-n", "kube-system", "daemonset/contiv-agent")
	kubectl(t, "rollout", "status", "-n", "kube-system", "daemonset/contiv-agent", "--timeout=80s")
	measured(t, "rolled after %s", time.Since(began).Round(time.Millisecond))
	stop()
	for _, node := range cluster.Nodes() {
		checkUntouched(t, node.Name)
	}
}

// A rolling Deployment does not disturb other pods.
func TestRollingDeploymentDisturbsNobody(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "rollout")
	first, second := n.pair()
	n.apply(workload("Deployment", "web", 8, ""))
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	stop := startStream(t, first, second)
	began := time.Now()
	n.kubectl("rollout", "restart", "deployment/web")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=80s")
	measured(t, "8 pods replaced in %s", time.Since(began).Round(time.Millisecond))
	stop()
	for _, pod := range n.pods() {
		if pod.DeletionTimestamp == nil {
			checkReachable(t, pod)
		}
	}
	reportStartTimes(t, n.pods())
}

// reportStartTimes logs how long pods took from scheduling to readiness.
func reportStartTimes(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	var longest, sum time.Duration
	var count int
	for _, pod := range pods {
		times := map[corev1.PodConditionType]time.Time{}
		for _, c := range pod.Status.Conditions {
			times[c.Type] = c.LastTransitionTime.Time
		}
		if took := times[corev1.PodReady].Sub(times[corev1.PodScheduled]); pod.DeletionTimestamp == nil && took >= 0 {
			count, sum, longest = count+1, sum+took, max(longest, took)
		}
	}
	if count > 0 {
		measured(t, "%d pods, from scheduled to ready: %s on average, %s at most (whole seconds)", count, (sum / time.Duration(count)).Round(100*time.Millisecond), longest)
	}
}

// As many pods as on a busy node, at once.
func TestSixtyPodsPerNode(t *testing.T) {
	needKernel(t, "it supports 15 pods without /dev/vhost-net")
	n := newNamespace(t, "sixty")
	began := time.Now()
	n.apply(workload("Deployment", "web", 60*len(cluster.Nodes()), ""))
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	measured(t, "%d pods are ready after %s", 60*len(cluster.Nodes()), time.Since(began).Round(time.Millisecond))
	pods := n.pods()
	seen := map[string]string{}
	for _, pod := range pods {
		if other, double := seen[pod.Status.PodIP]; double {
			t.Errorf("%s and %s both have %s", pod.Name, other, pod.Status.PodIP)
		}
		seen[pod.Status.PodIP] = pod.Name
		checkReachable(t, pod)
	}
	reportStartTimes(t, pods)
}
