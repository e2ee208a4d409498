package integration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Directories of testdata/older are named after versions. They contain the etcd snapshot and local
// files of a lab with the objects below, written by KSR, agents and a user of that version. The
// current version must read all of them.
var keepOlder = flag.String("keep-older", "", "a directory with programs: write their remaining state to testdata/older/VERSION")

const (
	olderDir = "testdata/older"
	// An etcd snapshot and the files of node1's agent: the mirror of etcd with its pods, the copy
	// of the pods, and the history. The oldest versions have only the snapshot.
	olderEtcd    = "etcd.db.gz"
	olderMirror  = "bolt.db.gz"
	olderPodsDB  = "pods.db.gz"
	olderHistory = "history.log.gz"
	olderObjects = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: closed}}, policyTypes: [Ingress]}
---
apiVersion: v1
kind: Service
metadata: {name: open}
spec: {clusterIP: 10.96.0.77, clusterIPs: [10.96.0.77], ports: [{name: web, protocol: TCP, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: open-1, labels: {kubernetes.io/service-name: open}}
addressType: IPv4
ports: [{name: web, protocol: TCP, port: 8080}]
endpoints: [{addresses: [10.1.1.200], nodeName: node1, conditions: {ready: true}}]
`
	olderLoopback = "config/vpp/v2/interfaces/old-loop"
	olderRoute    = "config/vpp/v2/route/if/old-loop/vrf/0/dst/10.62.0.0/16/gw/10.60.0.2"
)

func olderPods() (specs []lab.PodSpec) {
	for _, p := range [][2]string{{"open", "node1"}, {"closed", "node1"}, {"client", "node2"}} {
		specs = append(specs, lab.PodSpec{Name: p[0], Node: p[1], Template: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": p[0]}}}})
	}
	return specs
}

func olderLab(t *testing.T, programs string) *lab.Lab {
	t.Helper()
	opts := options("ol")
	opts.BinDir = programs
	opts.ServiceConfig = "services: vswitch\n"
	opts.PlainText = true // agents start before KSR, and older content has no etcd users
	return labtest.Up(t, opts)
}

// Agents apply the etcd content of older versions before KSR runs, and KSR then updates it.
func TestEtcdOfOlderVersions(t *testing.T) {
	require(t)
	if *keepOlder != "" {
		t.Run("keep", func(t *testing.T) { keepContent(t, *keepOlder) })
	}
	for _, file := range olderFiles(t, olderEtcd) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			l := olderLab(t, binaries)
			replaceContent(t, l, file)
			// Nodes keep the IDs of the older version in any start order.
			for _, node := range []string{"node2", "node1"} {
				if err := l.StartAgent(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			}
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			node1, err := st.Node("node1")
			if err != nil {
				t.Fatal(err)
			}
			requireOlderConfiguration(t, l, node1)
			etcd, err := l.Etcd()
			if err != nil {
				t.Fatal(err)
			}
			defer etcd.Close()
			specs := olderPods()
			for i := range specs {
				specs[i].Template.UID = reflectedUID(t, etcd, specs[i].Name)
			}
			pods := labtest.AddPods(t, l, specs...)
			open, closed, client := pods[0], pods[1], pods[2]
			for pod, subnet := range map[*lab.Pod]string{&open: "10.1.1.", &client: "10.1.2."} {
				if !strings.HasPrefix(pod.Address.String(), subnet) {
					t.Errorf("%s has the address %s, and its node the wrong ID", pod.Name, pod.Address)
				}
			}
			olderTraffic(t, client, open, closed)

			if err := l.StartKSR(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err := etcd.Get(t.Context(), models.KSRPrefix+kubestate.FormatKey); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != string(kubestate.FormatValue()) {
				t.Errorf("format of the content: %v, %v", r, err)
			}
			await.That(t, "the older policy is gone", func() error { return ping(t, client, closed) })
			requireConnected(t, l, open, closed, client)
			awaitStatus(t, l, "node1", "healthy", "", "")
		})
	}
}

// reflectedUID returns the UID of a pod in etcd.
func reflectedUID(t *testing.T, etcd *clientv3.Client, pod string) types.UID {
	t.Helper()
	r, err := etcd.Get(t.Context(), models.KSRPrefix+"k8s/pod/"+pod+"/namespace/default")
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("pod %s in etcd: %v, %v", pod, r, err)
	}
	var value struct {
		UID types.UID `json:"uid"`
	}
	if err := json.Unmarshal(r.Kvs[0].Value, &value); err != nil || value.UID == "" {
		t.Fatalf("pod %s in etcd: %s, %v", pod, r.Kvs[0].Value, err)
	}
	return value.UID
}

// Without etcd, an agent starts from the files of an older agent: first from the mirror, then,
// without the mirror, from the copy of the node's pods.
func TestLocalFilesOfOlderVersions(t *testing.T) {
	require(t)
	for _, file := range olderFiles(t, olderMirror) {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			l := olderLab(t, binaries)
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			node1, err := st.Node("node1")
			if err != nil {
				t.Fatal(err)
			}
			mirror, pods, past := l.Path("nodes", "node1", "bolt.db"), filepath.Join(l.RunDir("node1"), "pods.db"), l.Path("nodes", "node1", "history")
			err = errors.Join(l.StopKSR(t.Context()), l.StopAgent(t.Context(), "node1"), l.StopEtcd(t.Context()), os.RemoveAll(past), os.Mkdir(past, 0o700))
			if err != nil {
				t.Fatal(err)
			}
			labtest.Unpack(t, file, mirror)
			revivePods(t, mirror)
			labtest.Unpack(t, filepath.Join(dir, olderHistory), filepath.Join(past, "00000001.log"))
			if err := errors.Join(os.Remove(pods), l.StartAgent(t.Context(), "node1")); err != nil {
				t.Fatal(err)
			}
			requireOlderConfiguration(t, l, node1)
			requireOlderPods(t, l)
			var events history.Events
			if err := l.Agent("node1").Get(t.Context(), history.EventsURL, &events); err != nil {
				t.Fatal(err)
			}
			if first := events.Events[0]; len(events.Runs) != 2 || first.Run != 1 || first.Event.Name != "Database Resync" {
				t.Errorf("of earlier events: %v, %v", events.Runs, first)
			}

			if err := errors.Join(l.StopAgent(t.Context(), "node1"), os.Remove(mirror), l.StartEtcd(t.Context())); err != nil {
				t.Fatal(err)
			}
			labtest.Unpack(t, filepath.Join(dir, olderPodsDB), pods)
			revivePods(t, pods)
			if err := l.StartAgent(t.Context(), "node1"); err != nil {
				t.Fatal(err)
			}
			requireOlderPods(t, l)
		})
	}
}

// revivePods replaces the network namespaces of the pods in a file by existing ones. An agent
// removes pods without a namespace.
func revivePods(t *testing.T, file string) {
	t.Helper()
	store, err := bolt.Open(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pods, _, err := store.List(t.Context(), "/local/podmanager/pods/")
	if err != nil || len(pods) != 2 {
		t.Fatalf("pods of %s: %v, %v", file, pods, err)
	}
	for _, kv := range pods {
		var pod map[string]any
		if err := json.Unmarshal(kv.Value, &pod); err != nil {
			t.Fatal(err)
		}
		path, _ := pod["netns"].(string)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			name := filepath.Base(path)
			if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", name).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
		}
		if pod["netnsID"], err = podmanager.KernelNamespaces(path); err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(pod)
		if err == nil {
			err = store.Put(t.Context(), kv.Key, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func requireOlderConfiguration(t *testing.T, l *lab.Lab, node1 lab.Node) {
	t.Helper()
	await.That(t, "node1 has the values of a user", func() error {
		addresses, err1 := l.Exec(t.Context(), "node1", "ip", "-br", "address")
		routes, err2 := l.Exec(t.Context(), "node1", "ip", "route")
		if !strings.Contains(addresses, "10.60.0.1/24") || !strings.Contains(routes, "10.62.0.0/16 via 10.60.0.2") {
			return fmt.Errorf("%v: %s%s", errors.Join(err1, err2), addresses, routes)
		}
		return nil
	})
	translated := command.In(t, node1.Netns, "nft list ruleset")
	for _, part := range []string{"10.96.0.77", "10.1.1.200"} {
		if !strings.Contains(translated, part) {
			t.Errorf("node1 does not translate the service: no %s in\n%s", part, translated)
		}
	}
}

func requireOlderPods(t *testing.T, l *lab.Lab) {
	t.Helper()
	var report ipnet.PodsReport
	if err := l.Agent("node1").Get(t.Context(), ipnet.PodsURL, &report); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range report.Pods {
		if len(p.IPs) == 1 && strings.HasPrefix(p.IPs[0], "10.1.1.") {
			names = append(names, p.Name)
		}
	}
	if !slices.Equal(names, []string{"closed", "open"}) {
		t.Errorf("node1's pods: %+v", report.Pods)
	}
}

func olderFiles(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(olderDir, "*", name))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s of older versions: %v", name, err)
	}
	return files
}

// A node that is too old for the content of etcd reports it and keeps running.
func TestEtcdOfANewerVersion(t *testing.T) {
	l := require(t)
	a, b := pod(t, l, "old-a", "node1"), pod(t, l, "old-b", "node2")
	awaitStatus(t, l, "node1", "healthy", "", "")
	etcd, err := l.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	format := func(value string) {
		t.Helper()
		if _, err := etcd.Put(context.WithoutCancel(t.Context()), models.KSRPrefix+kubestate.FormatKey, value); err != nil {
			t.Fatal(err)
		}
	}
	format(`{"number":99}`)
	t.Cleanup(func() { awaitStatus(t, l, "node1", "healthy", "", "") })
	t.Cleanup(func() { format(string(kubestate.FormatValue())) })
	awaitStatus(t, l, "node1", "degraded", "etcd", "was written by a newer version of Contiv")
	if err := ping(t, a, b); err != nil {
		t.Error(err)
	}
}

func olderTraffic(t *testing.T, client, open, closed lab.Pod) {
	t.Helper()
	await.That(t, "the policy is in force", func() error {
		if err := ping(t, client, open); err != nil {
			return err
		}
		if _, err := lab.Ping(t.Context(), client.Endpoint(), closed.Endpoint()); err == nil {
			return errors.New("the pod that is closed answers")
		}
		return nil
	})
}

// replaceContent stops KSR and agents, replaces etcd's content by a snapshot, and removes the
// agents' local state.
func replaceContent(t *testing.T, l *lab.Lab, file string) {
	t.Helper()
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	labtest.Unpack(t, file, snapshot)
	errs := []error{l.StopKSR(t.Context())}
	for _, node := range []string{"node1", "node2"} {
		errs = append(errs, l.StopAgent(t.Context(), node), os.Remove(l.Path("nodes", node, "bolt.db")))
	}
	errs = append(errs, l.StopEtcd(t.Context()), os.RemoveAll(l.Path("etcd")))
	out, err := exec.CommandContext(t.Context(), l.Program("contiv-etcd"), "restore", snapshot, "--data-dir", l.Path("etcd")).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	if err := errors.Join(append(errs, err, l.StartEtcd(t.Context()))...); err != nil {
		t.Fatal(err)
	}
}

func keepContent(t *testing.T, programs string) {
	version, err := exec.CommandContext(t.Context(), filepath.Join(programs, "contiv-agent"), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(version))
	dir := filepath.Join(olderDir, words[len(words)-1])
	l := olderLab(t, programs)
	objects := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(objects, []byte(olderObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	pods := labtest.AddPods(t, l, olderPods()...)
	o := newOperator(t, l, "node1")
	t.Cleanup(func() { // runs before the operator waits for the end of all statuses
		if _, err := l.Delete(context.Background(), objects); err != nil {
			t.Error(err)
		}
	})
	o.put(olderLoopback, `{"name": "old-loop", "type": "SOFTWARE_LOOPBACK", "enabled": true, "ip_addresses": ["10.60.0.1/24"]}`)
	o.await(olderRoute, o.put(olderRoute, `{"dst_network": "10.62.0.0/16", "next_hop_addr": "10.60.0.2", "outgoing_interface": "old-loop"}`), "CONFIGURED")
	olderTraffic(t, pods[2], pods[0], pods[1])
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	if out, err := exec.CommandContext(t.Context(), l.Program("contiv-etcd"), "snapshot", snapshot, "--data-dir", l.Path("etcd")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Stop the agent, because a file that it has open may contain a partial write.
	if err := errors.Join(os.MkdirAll(dir, 0o755), l.StopAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		olderEtcd:    snapshot,
		olderMirror:  l.Path("nodes", "node1", "bolt.db"),
		olderPodsDB:  filepath.Join(l.RunDir("node1"), "pods.db"),
		olderHistory: l.Path("nodes", "node1", "history", "00000001.log"),
	} {
		labtest.Pack(t, from, filepath.Join(dir, name))
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
}
