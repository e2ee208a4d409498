package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr/conditions"
	"github.com/contiv/contiv/test/await"
	corev1 "k8s.io/api/core/v1"
)

// awaitCondition waits until a node's condition has a status and a text in its message.
func awaitCondition(t *testing.T, node string, status corev1.ConditionStatus, message string) {
	t.Helper()
	await.That(t, fmt.Sprintf("condition of %s: %s, %q", node, status, message), func() error {
		var n corev1.Node
		if err := cluster.Get(t.Context(), &n, "node", node); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == conditions.Type {
				if c.Status == status && strings.Contains(c.Message, message) {
					return nil
				}
				return fmt.Errorf("it is %s %s: %s", c.Status, c.Reason, c.Message)
			}
		}
		return fmt.Errorf("no condition %s", conditions.Type)
	})
}

// awaitEvent waits for an event about a node.
func awaitEvent(t *testing.T, node, reason, message string) {
	t.Helper()
	await.That(t, fmt.Sprintf("event %s: %q", reason, message), func() error {
		var list corev1.EventList
		if err := cluster.Get(t.Context(), &list, "events", "-n", "default", "--field-selector", "involvedObject.kind=Node,involvedObject.name="+node+",reason="+reason); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, message) }) {
			return fmt.Errorf("none of %d events of this reason", len(list.Items))
		}
		return nil
	})
}

// A foreign device has the name of one of ours. Running pods keep working, but an agent that starts
// then cannot create its network. Kubernetes shows the reason in the condition and an Event, and
// the recovery too.
func TestKubernetesKnowsWhatIsWrongWithANode(t *testing.T) {
	needKernel(t, "the device that is in the way is one of the kernel")
	const node, device, why = "node2", "c-vxlanBVI", "device c-vxlanBVI exists and is not ours"
	awaitCondition(t, node, corev1.ConditionTrue, "Contiv works")

	// At once, because the agent is fast. It may win nevertheless.
	inTheWay := fmt.Sprintf(`ip link add inTheWay type bridge
		for i in $(seq 100); do printf 'link del %[1]s\nlink set inTheWay name %[1]s\n' | ip -batch - && exit; done
		ip link del inTheWay; exit 1`, device)
	if out, err := cluster.Lab().Exec(t.Context(), node, "sh", "-c", inTheWay); err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { // if the test has ended early
		_, _ = cluster.Lab().Exec(context.Background(), node, "sh", "-c", "ip link show "+device+" | grep -q contiv: || ip link del "+device)
	})
	await.That(t, "the agent finds the device", func() error {
		out, err := cluster.Contivctl(t.Context(), "--node", node, "values", "--state", "RETRYING", "--state", "FAILED")
		if err == nil && !strings.Contains(out, "vxlanBVI") {
			err = errors.New(out)
		}
		return err
	})
	if err := cluster.KillAgent(node); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the next agent is not ready", func() error {
		if err := cluster.Agent(node).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "resync") {
			return fmt.Errorf("it says: %v", err)
		}
		return nil
	})
	awaitCondition(t, node, corev1.ConditionFalse, why)
	awaitEvent(t, node, "ContivNotReady", why)

	before := time.Now()
	if out, err := cluster.Lab().Exec(t.Context(), node, "ip", "link", "del", device); err != nil {
		t.Fatal(err, out)
	}
	awaitCondition(t, node, corev1.ConditionTrue, "Contiv works")
	awaitEvent(t, node, "ContivReady", "Contiv works")
	measured(t, "a broken node is mended: Kubernetes knows after %s", time.Since(before).Round(time.Second))
}
