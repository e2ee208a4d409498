package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/ksr"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	corev1 "k8s.io/api/core/v1"
)

// etcdPort is the one that the nodes reach etcd at.
const etcdPort = "32379"

func TestEtcdIsAtItsNodePortOnEveryNode(t *testing.T) {
	needCluster(t)
	for _, from := range cluster.Nodes() {
		for _, at := range cluster.Nodes() {
			url := "http://" + net.JoinHostPort(at.Address.Addr().String(), etcdPort) + "/health"
			response, err := e2e.HTTPClient(from.Netns).Get(url)
			if err != nil {
				t.Errorf("from %s: %v", from.Name, err)
				continue
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("from %s: %s: %s", from.Name, url, response.Status)
			}
		}
	}
}

// As the manifest says.
func TestOwnEtcdIsLeftOutByItsLabel(t *testing.T) {
	needCluster(t)
	args := []string{"apply", "--dry-run=client", "-o", "name", "-l", "app!=contiv-etcd"}
	for _, file := range options.Manifests {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", path)
	}
	objects := strings.Fields(kubectl(t, args...))
	for object, wanted := range map[string]bool{
		"statefulset.apps/contiv-etcd": false, "service/contiv-etcd": false,
		"daemonset.apps/contiv-ksr": true, "daemonset.apps/contiv-agent": true, "configmap/contiv-config": true, "serviceaccount/contiv-ksr": true,
	} {
		if slices.Contains(objects, object) != wanted {
			t.Errorf("%s: %v; objects: %q", object, !wanted, objects)
		}
	}
}

// nodeIDs are what agents have allocated in etcd.
func nodeIDs(t *testing.T) map[string]uint32 {
	t.Helper()
	var report nodesync.NodesReport
	if err := cluster.Agent("node1").Get(t.Context(), nodesync.NodesURL, &report); err != nil {
		t.Fatal(err)
	}
	ids := map[string]uint32{}
	for _, n := range report.Nodes {
		ids[n.Name] = n.ID
	}
	return ids
}

func TestEtcdPodIsReplacedOnItsDataAndNobodyNotices(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "etcd")
	first, second := n.pair()
	ids := nodeIDs(t)
	stop := startStream(t, first, second)
	began := time.Now()
	kubectl(t, "delete", "pod", "-n", "kube-system", "contiv-etcd-0", "--wait")
	await.That(t, "a new pod of etcd is ready", func() error {
		var pod corev1.Pod
		if err := cluster.Get(t.Context(), &pod, "pod", "-n", "kube-system", "contiv-etcd-0"); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("phase %s", pod.Status.Phase)
	})
	measured(t, "etcd is back after %s", time.Since(began).Round(time.Millisecond))
	checkReachable(t, n.pod("new", "node2"))
	stop()
	for name, id := range nodeIDs(t) {
		if ids[name] != id {
			t.Errorf("ID of %s: %d, was %d", name, id, ids[name])
		}
	}
}

// role of the KSR of a node.
func role(t *testing.T, netns string) (ksr.Role, error) {
	t.Helper()
	response, err := e2e.HTTPClient(netns).Get("http://127.0.0.1:9191/readiness")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var report ksr.Report
	err = json.NewDecoder(response.Body).Decode(&report)
	return report.Store.Role, err
}

// The API server falls silent for one of two control plane nodes.
func TestKSRThatIsCutOffFromTheAPIServerLeavesToAnotherOne(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "cutoff")
	kubectl(t, "label", "node", "node2", "node-role.kubernetes.io/control-plane=")
	t.Cleanup(func() {
		cluster.Kubectl(context.Background(), "label", "node", "node2", "node-role.kubernetes.io/control-plane-")
	})
	netns := map[string]string{}
	for _, node := range cluster.Nodes() {
		netns[node.Name] = node.Netns
	}
	awaitRole := func(node string, want ksr.Role) {
		t.Helper()
		await.That(t, "KSR of "+node+" is "+string(want), func() error {
			got, err := role(t, netns[node])
			if err == nil && got != want {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		})
	}
	awaitRole("node1", ksr.Leader)
	awaitRole("node2", ksr.Standby)

	const silence = "iptables -w %s OUTPUT -d 192.168.16.254 -p tcp --dport 443 -j DROP"
	node1 := func(action string) {
		if out, err := cluster.Lab().Exec(context.Background(), "node1", "sh", "-c", fmt.Sprintf(silence, action)); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	node1("-I")
	began := time.Now()
	healed := sync.OnceFunc(func() { node1("-D") })
	defer healed()
	awaitRole("node2", ksr.Leader)
	measured(t, "another KSR leads after %s", time.Since(began).Round(time.Millisecond))
	checkReachable(t, n.pod("web", "node2"))
	healed()
	awaitRole("node1", ksr.Standby)
}
