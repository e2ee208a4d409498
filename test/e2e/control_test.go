package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/ksr/signer"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
)

// etcdPort is etcd's port on the nodes.
const etcdPort = "32379"

// secret returns the value of a key in one of our Secrets.
func secret(t *testing.T, name, key string) []byte {
	t.Helper()
	var s corev1.Secret
	if err := cluster.Get(t.Context(), &s, "secret", "-n", "kube-system", name); err != nil {
		t.Fatal(err)
	}
	return s.Data[key]
}

// etcd's certificate is valid for each node's address, and it requires client certificates.
func TestEtcdIsAtItsNodePortOnEveryNode(t *testing.T) {
	needCluster(t)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret(t, "contiv-etcd-server", "ca.crt")) {
		t.Fatal("no authority")
	}
	for _, from := range cluster.Nodes() {
		for _, at := range cluster.Nodes() {
			address := net.JoinHostPort(at.Address.Addr().String(), etcdPort)
			var state tls.ConnectionState
			await.That(t, "a connection from "+from.Name+" to "+address, func() (err error) {
				state, err = turnedAway(t.Context(), from.Netns, address, &tls.Config{RootCAs: roots, ServerName: at.Address.Addr().String()})
				return err
			})
			if life := time.Until(state.PeerCertificates[0].NotAfter); life > signer.NodeLife {
				t.Errorf("certificate of etcd: it lives for %s", life)
			}
		}
	}
}

// turnedAway returns nil if etcd shows its certificate and closes the connection of a client
// without one.
func turnedAway(ctx context.Context, netns, address string, config *tls.Config) (state tls.ConnectionState, err error) {
	raw, err := e2e.Dial(ctx, netns, address)
	if err != nil {
		return state, err
	}
	conn := tls.Client(raw, config)
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return state, err
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		return state, fmt.Errorf("without a certificate: %v", err)
	}
	return conn.ConnectionState(), nil
}

// Of all services of Contiv on nodes, pods reach only etcd, which requires a certificate.
func TestPodsAreConfinedToEtcdsDoor(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "confined")
	for _, pod := range []corev1.Pod{n.pod("one", "node1"), n.pod("two", "node2")} {
		from := endpoint(t, pod)
		for _, node := range cluster.Nodes() {
			at := func(port string) string { return net.JoinHostPort(node.Address.Addr().String(), port) }
			for what, port := range map[string]string{
				"REST of the agent": "9999", "gRPC of the agent": "9111", "REST of KSR": "9191", "other members of etcd": "12380", "health of etcd": "12381",
			} {
				if conn, err := e2e.Dial(t.Context(), from.Netns, at(port)); err == nil {
					conn.Close()
					t.Errorf("%s reaches the %s at %s", pod.Name, what, at(port))
				}
			}
			var doors []string
			if !slices.ContainsFunc(cluster.Nodes(), lab.Node.OnVPP) { // such nodes do not reach NodePorts with kube-proxy: docs/operator/install.md
				doors = append(doors, etcdPort)
			}
			if node.Name == e2e.ControlPlaneNode {
				doors = append(doors, "12379")
			}
			for _, port := range doors {
				await.That(t, pod.Name+" is turned away at "+at(port), func() error {
					_, err := turnedAway(t.Context(), from.Netns, at(port), &tls.Config{InsecureSkipVerify: true})
					return err
				})
			}
		}
	}
}

// A node's certificate, which its agent has, allows no changes to other nodes.
func TestStolenCertificateOfANodeConfiguresNoOther(t *testing.T) {
	needCluster(t)
	agent := ""
	for _, pod := range agentPods(t) {
		if pod.Spec.NodeName == "node2" {
			agent = pod.Name
		}
	}
	file := func(name string) string {
		return kubectl(t, "exec", "-n", "kube-system", agent, "-c", "credentials", "--", "cat", "/run/contiv-etcd/"+name)
	}
	client := []byte(file("client.pem"))
	certificate, err := tls.X509KeyPair(client, client)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(file("ca.pem")))
	store, err := clientv3.New(clientv3.Config{
		Endpoints: []string{net.JoinHostPort(cluster.Nodes()[0].Address.Addr().String(), etcdPort)},
		TLS:       &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return e2e.Dial(ctx, cluster.Nodes()[1].Netns, address)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if _, err := store.Get(ctx, "/vnf-agent/contiv-ksr/", clientv3.WithPrefix()); err != nil {
		t.Errorf("read the reflected state: %v", err)
	}
	for key, allowed := range map[string]bool{
		"/vnf-agent/node2/e2e": true, "/vnf-agent/node1/e2e": false, "/vnf-agent/contiv-ksr/k8s/node/evil": false, "/contiv-ksr/clients/evil": false,
	} {
		_, err := store.Put(ctx, key, "{}")
		if allowed && err != nil || !allowed && !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("write %s: %v", key, err)
		}
	}
	if _, err := store.Delete(ctx, "/vnf-agent/node2/e2e"); err != nil {
		t.Error(err)
	}
}

// Containers on the host's network are confined as in the manifests.
func TestOurContainersAreConfined(t *testing.T) {
	needCluster(t)
	const writeBack = "value=$(cat /proc/sys/kernel/panic_on_oops); echo $value >/proc/sys/kernel/panic_on_oops"
	var pods corev1.PodList
	if err := cluster.Get(t.Context(), &pods, "pods", "-n", "kube-system", "-l", "app in (contiv-agent, contiv-vpp, contiv-etcd, contiv-ksr)"); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) < 3 {
		t.Errorf("%d pods", len(pods.Items))
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Spec.Containers {
			if privileged := c.SecurityContext.Privileged; pod.Labels["app"] == "contiv-vpp" && privileged != nil && *privileged {
				continue // E2E_VALUES='vpp: {enabled: true, privileged: false}'
			}
			status := kubectl(t, "exec", "-n", "kube-system", pod.Name, "-c", c.Name, "--", "cat", "/proc/self/status")
			for what, line := range map[string]string{"no filter of system calls": "Seccomp:\t2", "it can gain privileges": "NoNewPrivs:\t1"} {
				if !strings.Contains(status, line) {
					t.Errorf("%s, container %s: %s", pod.Name, c.Name, what)
				}
			}
			if out, err := cluster.Kubectl(t.Context(), "exec", "-n", "kube-system", pod.Name, "-c", c.Name, "--", "touch", "/etc/e2e"); err == nil {
				t.Errorf("%s, container %s: its root file system can be written to: %s", pod.Name, c.Name, out)
			}
			// The agent can write below /proc/sys/net only.
			if out, err := cluster.Kubectl(t.Context(), "exec", "-n", "kube-system", pod.Name, "-c", c.Name, "--", "sh", "-c", writeBack); err == nil {
				t.Errorf("%s, container %s: it can write /proc/sys/kernel: %s", pod.Name, c.Name, out)
			}
		}
	}
}

// One command creates credentials for external configuration of the named nodes.
func TestCredentialsForConfiguringANode(t *testing.T) {
	needCluster(t)
	dir := t.TempDir()
	out, err := cluster.Contivctl(t.Context(), "credentials", "ops", "--node", "node1", "--dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "etcdctl --endpoints https://") {
		t.Errorf("printed: %s", out)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("model: vpp.interfaces\nvalue: {name: e2e-loop, type: SOFTWARE_LOOPBACK, enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(args ...string) error {
		_, err := cluster.Contivctl(t.Context(), append([]string{"--etcd-config", filepath.Join(dir, "etcd.conf"), "config", "--via", "etcd"}, args...)...)
		return err
	}
	await.That(t, "node1 can be configured", func() error { return config("apply", "-f", values, "--node", "node1") })
	if err := config("apply", "-f", values, "--node", "node2"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("node2: %v", err)
	}
	if err := config("delete", "-f", values, "--node", "node1"); err != nil {
		t.Error(err)
	}
	kubectl(t, "exec", "-n", "kube-system", "daemonset/contiv-ksr", "--", "contiv-ksr", "revoke", "ops", "--etcd-config=/etc/contiv/etcd.conf")
	await.That(t, "the credentials are useless", func() error {
		if err := config("apply", "-f", values, "--node", "node1"); err == nil || !strings.Contains(err.Error(), "permission denied") {
			return fmt.Errorf("apply: %v", err)
		}
		return nil
	})
}

func agentPods(t *testing.T) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := cluster.Get(t.Context(), &pods, "pods", "-n", "kube-system", "-l", "app in (contiv-agent, contiv-vpp)"); err != nil {
		t.Fatal(err)
	}
	return pods.Items
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

// nodeIDs returns the IDs allocated by agents in etcd.
func nodeIDs(t *testing.T) map[string]uint32 {
	t.Helper()
	return nodeIDsOf(t, cluster)
}

func nodeIDsOf(t *testing.T, c *e2e.Cluster) map[string]uint32 {
	t.Helper()
	var report nodesync.NodesReport
	if err := c.Agent("node1").Get(t.Context(), nodesync.NodesURL, &report); err != nil {
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

// Restoring an old backup takes nothing away from the present cluster.
func TestEtcdIsRestoredFromABackupAndNobodyNotices(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "backup")
	first, second := n.pair()
	etcd := func(args ...string) {
		t.Helper()
		kubectl(t, append([]string{"exec", "-n", "kube-system", "contiv-etcd-0", "-c", "etcd", "--", "contiv-etcd"}, args...)...)
	}
	const file = "/var/etcd/contiv-data/e2e-backup.db"
	etcd("snapshot", file)
	later := n.pod("later", "node2")
	checkReachable(t, later)
	ids := nodeIDs(t)
	stop := startStream(t, first, second)
	began := time.Now()
	etcd("restore", file)
	measured(t, "etcd is restored from a backup after %s", time.Since(began).Round(time.Millisecond))
	checkReachable(t, n.pod("new", "node2"))
	checkReachable(t, later)
	stop()
	for name, id := range nodeIDs(t) {
		if ids[name] != id {
			t.Errorf("ID of %s: %d, was %d", name, id, ids[name])
		}
	}
	for _, node := range cluster.Nodes() {
		await.That(t, node.Name+" believes its database again", func() error {
			response, err := e2e.HTTPClient(node.Netns).Get("http://127.0.0.1:9999/readiness")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			var health struct{ Database string }
			if err := json.NewDecoder(response.Body).Decode(&health); err != nil || health.Database != "" {
				return fmt.Errorf("%s (%v)", health.Database, err)
			}
			return nil
		})
	}
	kubectl(t, "exec", "-n", "kube-system", "contiv-etcd-0", "-c", "etcd", "--", "rm", file)
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

// One of two control plane nodes loses the API server.
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

// Pods reach all listeners on the host's network by the nodes' addresses, so these must not serve
// them: only etcd answers, and only with a certificate.
func TestOurPortsAreConfined(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "ports")
	pod := endpoint(t, n.pod("curious", "node2"))
	addresses := []string{"10.1.2.1"} // its gateway
	for _, node := range cluster.Nodes() {
		addresses = append(addresses, node.Address.Addr().String())
		out, err := exec.Command("ip", "netns", "exec", node.Netns, "ss", "-Hltnp").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			if len(fields) < 6 || !strings.Contains(fields[5], `"contiv-`) {
				continue
			}
			host, port, _ := net.SplitHostPort(fields[3])
			if port == "10256" && options.WithoutProxy {
				continue // the health check for load balancers, otherwise kube-proxy's
			}
			if ip := net.ParseIP(host); (ip == nil || !ip.IsLoopback()) && port != "12379" {
				t.Errorf("%s: everybody reaches %s of %s", node.Name, fields[3], fields[5])
			}
		}
	}
	for _, address := range addresses {
		for port, open := range map[string]bool{"9999": false, "9111": false, "9191": false, "12380": false, "12381": false, "12379": true, "32379": true} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			conn, err := e2e.Dial(ctx, pod.Netns, net.JoinHostPort(address, port))
			cancel()
			if err != nil {
				continue // etcd is on one node
			}
			if !open {
				t.Errorf("a pod reaches port %s of %s", port, address)
			} else {
				client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				if _, err := client.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
					t.Errorf("port %s of %s, without a certificate: %v", port, address, err)
				}
			}
			conn.Close()
		}
	}
	conn, err := e2e.Dial(t.Context(), pod.Netns, net.JoinHostPort(cluster.Nodes()[0].Address.Addr().String(), "12379"))
	if err != nil {
		t.Fatalf("the test is not right: pods reach nothing at all: %v", err)
	}
	conn.Close()
}
