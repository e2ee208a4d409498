package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/test/await"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// containerd calls STATUS, kubelet takes the answer over into the condition of the node.
func TestNodeIsNotReadyWhileTheAgentCannotAdd(t *testing.T) {
	needCluster(t)
	thaw, err := cluster.FreezeAgent("node2")
	if err != nil {
		t.Fatal(err)
	}
	defer thaw()
	await.That(t, "node2 is not ready because of STATUS", func() error {
		return readiness(t.Context(), "node2", corev1.ConditionFalse, "Contiv cannot connect pods on this node now")
	})
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	await.That(t, "node2 is ready again", func() error {
		return readiness(t.Context(), "node2", corev1.ConditionTrue, "")
	})
	checkReachable(t, newNamespace(t, "status").pod("web", "node2"))
}

// readiness returns an error unless the node's condition Ready has the status, and a message with
// the text.
func readiness(ctx context.Context, node string, status corev1.ConditionStatus, text string) error {
	return eachNode(ctx, func(name string, ready corev1.NodeCondition) error {
		if name == node && (ready.Status != status || !strings.Contains(ready.Message, text)) {
			return fmt.Errorf("Ready is %s: %s", ready.Status, ready.Message)
		}
		return nil
	})
}

// No runtime that is tested calls GC, so the test calls it through the CNI library, with the cache
// of the real containerd.
func TestGCRemovesALeakedAttachment(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "gc")
	kept := n.pod("kept", "node1")
	list, err := libcni.ConfListFromFile(cluster.Conflist("node1"))
	if err != nil {
		t.Fatal(err)
	}
	cni := cluster.CNI("node1")

	// A runtime that forgets the sandbox after its ADD leaks it.
	const leaked = "leaked-by-a-runtime"
	netns := cluster.NetnsPath("node1", leaked)
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--net="+netns, "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() { _ = errors.Join(unix.Unmount(netns, unix.MNT_DETACH), os.Remove(netns)) }()
	_, err = cni.AddNetworkList(t.Context(), list, &libcni.RuntimeConf{
		ContainerID: leaked, NetNS: netns, IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", n.name}, {"K8S_POD_NAME", "leaked"}, {"K8S_POD_INFRA_CONTAINER_ID", leaked}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := held("leaked", true); err != nil {
		t.Fatal(err)
	}

	if err := cni.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: attachmentsOfSandboxes(t, cni)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held("leaked", false), held("kept", true)); err != nil {
		t.Error(err)
	}
	cached, err := cni.GetCachedAttachments("")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range cached {
		if a.ContainerID == leaked {
			t.Errorf("the cache still has %s", a.ContainerID)
		}
	}
	checkReachable(t, kept)
}

// attachmentsOfSandboxes returns the cached attachments whose sandbox a runtime has. The nodes share
// the cache.
func attachmentsOfSandboxes(t *testing.T, cni *libcni.CNIConfig) (valid []types.GCAttachment) {
	t.Helper()
	var running []string
	for _, node := range cluster.Nodes() {
		ids, err := cluster.Sandboxes(t.Context(), node.Name)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, ids...)
	}
	cached, err := cni.GetCachedAttachments("")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range cached {
		if slices.Contains(running, a.ContainerID) {
			valid = append(valid, types.GCAttachment{ContainerID: a.ContainerID, IfName: a.IfName})
		}
	}
	if len(valid) == 0 {
		described, _ := json.Marshal(cached)
		t.Fatalf("no sandbox of containerd is in the cache: %s", described)
	}
	return valid
}

// held returns an error unless node1 has an address for the pod, or has none.
func held(pod string, want bool) error {
	var report ipam.AllocationsReport
	if err := cluster.Agent("node1").Get(context.Background(), ipam.URL, &report); err != nil {
		return err
	}
	got := slices.ContainsFunc(report.Pods, func(a ipam.PodAllocation) bool { return a.PodID.Namespace == "gc" && a.PodID.Name == pod })
	if got != want {
		return fmt.Errorf("%s has an address: %v, want %v", pod, got, want)
	}
	return nil
}
