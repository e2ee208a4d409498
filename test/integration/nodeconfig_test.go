package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Writes NodeConfigs to etcd, like the CRD controller, while pods communicate. The second NIC, its
// gateway and an additional address are added, changed, kept despite an invalid NodeConfig, and
// removed.
func TestNodeConfigInEtcd(t *testing.T) {
	require(t)
	l := labWith(t, "crdNodeConfigurationDisabled: false\n")
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	node1, peer := nodes[0].Netns, fmt.Sprintf("it%d-nodeconfig", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", peer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", peer).Run() })
	command.In(t, node1, `ip route del default; ip link add eth1 type veth peer name eth0 netns `+peer)
	command.In(t, peer, `ip link set lo up; ip link set eth0 up; ip address add 10.50.0.254/24 dev eth0; ip address add 198.51.100.9/32 dev lo`)
	added := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
	etcd, err := l.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	n := nodeConfigSite{T: t, lab: l, etcd: etcd, node1: node1, pods: added}

	n.put(`{"other_vpp_interfaces": [{"interface_name": "eth1", "ip": "10.50.0.1/24"}], "gateway": "10.50.0.254"}`)
	n.awaitNICs("the second NIC and the gateway are configured", contivconf.FromNodeConfig, "10.50.0.1/24", "192.168.16.1/24", true)
	await.That(t, "the pod reaches hosts behind the second NIC", n.outside)
	n.requireWorking()

	// A failed write makes KSR sweep its own keys, but not the keys of the CRD controller.
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod(t, l, "late", "node1")
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.That(t, "KSR writes to etcd again", func() error {
		return n.requireKey(models.KSRPrefix + kubestate.PodKey("late", "default"))
	})
	if err := n.requireKey(nodeConfigKey); err != nil {
		t.Error(err)
	}

	for text, want := range map[string]string{
		`{"other_vpp_interfaces": [{"interface_name": "eth7", "ip": "10.50.0.7/24"}]}`:                                            `"eth7" of nodeConfig.otherVPPInterfaces does not exist`,
		`{"main_vpp_interface": {"ip": "192.168.16.78/24"}, "other_vpp_interfaces": [{"interface_name": "eth1", "ip": "10.50"}]}`: `otherVPPInterfaces[0].ip is "10.50"`,
	} {
		n.put(text)
		n.awaitRefusal(want)
		n.awaitNICs("a mistake changes nothing", contivconf.FromNodeConfig, "10.50.0.1/24", "192.168.16.1/24", true)
		n.requireWorking()
	}
	requireRestartWithoutOperations(t, l, "node1")
	n.awaitRefusal("") // any error: the map order decides which one
	n.awaitNICs("the mistake and the configuration in force survived the restart", contivconf.FromNodeConfig, "10.50.0.1/24", "192.168.16.1/24", true)

	n.put(`{"otherVppInterfaces": [{"interfaceName": "eth1", "ip": "10.50.0.2/24"}], "gateway": "10.50.0.254",
		"mainVppInterface": {"interfaceName": "eth0", "ip": "192.168.16.77/24"}}`)
	n.awaitNICs("other addresses", contivconf.FromNodeConfig, "10.50.0.2/24", "192.168.16.77/24", true)
	await.That(t, "the pod reaches hosts behind the second NIC, by its new address", n.outside)
	n.requireWorking()

	if _, err := n.etcd.Delete(t.Context(), nodeConfigKey); err != nil {
		t.Fatal(err)
	}
	n.awaitNICs("without the NodeConfig", contivconf.FromFile, "", "192.168.16.1/24", false)
	await.That(t, "the address that was assigned is taken away", func() error {
		if out := command.In(t, node1, "ip -br address show eth0"); strings.Contains(out, "192.168.16.77") {
			return errors.New(out)
		}
		return nil
	})
	n.requireWorking()

	var history []controller.EventRecord
	if err := l.Agent("node1").Get(t.Context(), "/controller/event-history", &history); err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, event := range history {
		if event.ErrorStr != "" {
			t.Errorf("event #%d %s: %s", event.SeqNum, event.Name, event.ErrorStr)
		}
		if event.Name == (*contivconf.NodeConfigChange)(nil).Name() {
			changes++
		}
	}
	if changes != 2 {
		t.Errorf("%d changes of the configuration since the restart, want 2", changes)
	}
	requireRestartWithoutOperations(t, l, "node1")
}

var nodeConfigKey = models.KSRPrefix + kubestate.NodeConfigKey("node1")

type nodeConfigSite struct {
	*testing.T
	lab   *lab.Lab
	etcd  *clientv3.Client
	node1 string
	pods  []lab.Pod
}

func (n *nodeConfigSite) put(value string) {
	n.Helper()
	if _, err := n.etcd.Put(n.Context(), nodeConfigKey, value); err != nil {
		n.Fatal(err)
	}
}

func (n *nodeConfigSite) requireKey(key string) error {
	answer, err := n.etcd.Get(n.Context(), key, clientv3.WithCountOnly())
	if err == nil && answer.Count == 0 {
		err = fmt.Errorf("%s is not in etcd", key)
	}
	return err
}

// awaitNICs waits for the address of the second NIC ("" for none), the address of node1 on the
// other node, and the default route through the second NIC.
func (n *nodeConfigSite) awaitNICs(what string, from contivconf.Source, eth1, nodeIP string, gateway bool) {
	n.Helper()
	await.That(n.T, what, func() error {
		var report contivconf.Report
		if err := n.lab.Agent("node1").Get(n.Context(), contivconf.URL, &report); err != nil {
			return err
		}
		if report.Source != from {
			return fmt.Errorf("configured by %s", report.Source)
		}
		out := command.In(n.T, n.node1, "ip -br -4 address show eth1")
		addresses := 1
		if eth1 == "" {
			addresses = 0
		}
		if strings.Count(out, "10.50.") != addresses || !strings.Contains(out, eth1) {
			return errors.New(out)
		}
		if out := command.In(n.T, n.node1, "ip route show default"); strings.Contains(out, "via 10.50.0.254 dev eth1") != gateway {
			return fmt.Errorf("default route: %q", out)
		}
		var known nodesync.NodesReport
		if err := n.lab.Agent("node2").Get(n.Context(), nodesync.NodesURL, &known); err != nil {
			return err
		}
		for _, node := range known.Nodes {
			if node.Name == "node1" && !slices.Equal(node.VPPIPs, []string{nodeIP}) {
				return fmt.Errorf("node2 knows node1 by %v", node.VPPIPs)
			}
		}
		return nil
	})
}

// awaitRefusal waits until the agent reports the error and checks that it stays ready.
func (n *nodeConfigSite) awaitRefusal(want string) {
	n.Helper()
	await.That(n.T, "the NodeConfig is refused", func() error {
		var health struct{ Error, NodeConfig string }
		if err := n.lab.Agent("node1").Get(n.Context(), "/readiness", &health); err != nil {
			return err
		}
		if health.NodeConfig == "" || !strings.Contains(health.NodeConfig, want) || health.Error != "" {
			return fmt.Errorf("%+v", health)
		}
		return nil
	})
}

func (n *nodeConfigSite) requireWorking() {
	n.Helper()
	await.That(n.T, "packets between the nodes' pods", func() error { return ping(n.T, n.pods[0], n.pods[1]) })
	labtest.RequireQuiet(n.T, n.lab)
}

// outside pings a host behind the second NIC.
func (n *nodeConfigSite) outside() error {
	out, err := exec.CommandContext(n.Context(), "ip", "netns", "exec", n.pods[0].Netns, "ping", "-n", "-q", "-c2", "-i0.02", "-W1", "198.51.100.9").CombinedOutput()
	if err != nil {
		return errors.New(string(out))
	}
	return nil
}
