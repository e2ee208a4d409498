package e2e_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/await"
	corev1 "k8s.io/api/core/v1"
)

// vppNode returns the first VPP node, and skips the test if none exists.
func vppNode(t *testing.T) string {
	t.Helper()
	needCluster(t)
	for _, n := range cluster.Nodes() {
		if n.OnVPP() {
			return n.Name
		}
	}
	t.Skip("needs a node with VPP: make e2e E2E_VSWITCH=kernel,vpp VPP_BIN=/usr/bin/vpp")
	return ""
}

func TestLabelDecidesWhichVSwitchANodeHas(t *testing.T) {
	vppNode(t)
	for _, n := range cluster.Nodes() {
		want := map[bool]string{false: "contiv-agent", true: "contiv-vpp"}[n.OnVPP()]
		if got := agentPod(t, n.Name).Labels["app"]; got != want {
			t.Errorf("%s has %s, want %s", n.Name, got, want)
		}
	}
}

// Kubelet does not restart the pod when VPP or the agent dies.
func TestVPPAndItsAgentComeBackAlone(t *testing.T) {
	node := vppNode(t)
	n := newNamespace(t, "vppback")
	other := "node1"
	if node == other {
		other = "node2"
	}
	pods := []corev1.Pod{n.pod("here", node), n.pod("there", other)}
	reachable := func() {
		t.Helper()
		await.That(t, "all pods are reachable", func() (err error) {
			for _, from := range pods {
				for _, to := range pods {
					err = errors.Join(err, fetch(t, endpoint(t, from), to))
				}
				err = errors.Join(err, fetch(t, nodeEndpoint(t, node), from))
			}
			return err
		})
	}
	reachable()
	before := agentPod(t, node)

	began := time.Now()
	if err := cluster.KillVPP(node); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the agent has configured the next VPP", func() error {
		txns, err := cluster.Agent(node).Transactions(t.Context(), began)
		if err == nil && !slices.ContainsFunc(txns, func(txn *kvscheduler.RecordedTxn) bool { return strings.Contains(txn.Description, "VPP was restarted") }) {
			err = errors.New("no resync")
		}
		return errors.Join(err, cluster.Agent(node).Ready(t.Context()))
	})
	reachable()
	measured(t, "VPP killed: all is reachable after %s", time.Since(began).Round(time.Millisecond))

	stop := startStream(t, pods[0], pods[1])
	if err := cluster.KillAgent(node); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the agent is back", func() error { return cluster.Agent(node).Ready(t.Context()) })
	stop()
	checkReachable(t, n.pod("new", node))
	if after := agentPod(t, node); after.UID != before.UID || restarts(after) != restarts(before) {
		t.Errorf("the pod was restarted: %d restarts, then %d", restarts(before), restarts(after))
	}
}
