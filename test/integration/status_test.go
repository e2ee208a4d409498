package integration

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// awaitStatus waits for the verdict on a node and, unless it is healthy, for a problem of a check.
func awaitStatus(t *testing.T, l *lab.Lab, node, verdict, check, text string) {
	t.Helper()
	labtest.AwaitStatus(t, l, binaries, node, verdict, check, text)
}

func TestStatusTellsOfPathsBetweenNodes(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"node1", "node2"} {
		awaitStatus(t, l, node, "healthy", "", "")
	}
	node2, err := st.Endpoint("node2")
	if err != nil {
		t.Fatal(err)
	}

	const undo = "nft delete table inet foreign"
	for _, fault := range []struct{ rule, want string }{
		{"udp dport 4789 drop", "node node2 does not answer over the overlay (10.1.2.1)"},
		{"udp dport 4789 meta length 1401-65535 drop", "packets to node node2 larger than 1350 bytes are lost, but pods send up to 1450"},
	} {
		t.Run(fault.rule, func(t *testing.T) {
			command.In(t, node2.Netns, "nft add table inet foreign; nft 'add chain inet foreign in { type filter hook input priority 0; }'; nft add rule inet foreign in "+fault.rule)
			undone := false
			t.Cleanup(func() {
				if !undone {
					command.In(t, node2.Netns, undo)
				}
			})
			awaitStatus(t, l, "node1", "degraded", "peers", fault.want)
			command.In(t, node2.Netns, undo)
			undone = true
			awaitStatus(t, l, "node1", "healthy", "", "")
			awaitStatus(t, l, "node2", "healthy", "", "")
		})
	}
}

func TestStatusTellsOfTheNetworkOfANode(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	pod(t, l, "status-web", "node2") // a policy inspects the packets of pods
	node2, err := st.Endpoint("node2")
	if err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, l, "node2", "healthy", "", "")
	for _, c := range []struct{ netns, fault, undo, want string }{
		{node2.Netns, "nft add table ip foreign; nft 'add chain ip foreign FORWARD { type filter hook forward priority 0; policy drop; }'",
			"nft delete table ip foreign", "packets from local pods to pods of node node1 are dropped: the policy of chain FORWARD in table ip foreign is drop"},
		{st.Underlay(), "ip link set port2 down", "ip link set port2 up", "its device eth0 has no carrier"},
		{node2.Netns, "ip route add blackhole 10.1.1.7", "ip route del blackhole 10.1.1.7", "route blackhole 10.1.1.7/32 is foreign (protocol 3, boot: made by hand, or by a script) and diverts packets to 10.1.1.7"},
	} {
		t.Run(c.want, func(t *testing.T) {
			undone := false
			undo := func() {
				if !undone {
					undone = true
					command.In(t, c.netns, c.undo)
				}
			}
			t.Cleanup(undo)
			command.In(t, c.netns, c.fault)
			awaitStatus(t, l, "node2", "degraded", "network", c.want)
			undo()
			awaitStatus(t, l, "node2", "healthy", "", "")
		})
	}
}

// The status, and the answer to why pods of the node are unreachable, report the lost address of
// the main interface.
func TestLostAddressOfANode(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	web, db := pod(t, l, "lost-web", "node1"), pod(t, l, "lost-db", "node2")
	node2, err := st.Node("node2")
	if err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, l, "node2", "healthy", "", "")
	undone := false
	undo := func() {
		if !undone {
			undone = true
			command.In(t, node2.Netns, fmt.Sprintf("ip addr add %v dev eth0; ip route add default via %v", node2.Address, lab.RouterAddress.Addr()))
		}
	}
	t.Cleanup(undo)
	command.In(t, node2.Netns, fmt.Sprintf("ip addr del %v dev eth0", node2.Address))
	lost := fmt.Sprintf("the main interface eth0 lost the node's address %v: ", node2.Address)
	awaitStatus(t, l, "node2", "degraded", "vswitch", lost)
	await.That(t, "why says that the address is lost", func() error {
		answer, code := askWhy(t, l, web.Name, db.Name)
		if code == 1 && slices.ContainsFunc(answer.Findings, func(f pathexplain.Finding) bool { return strings.HasPrefix(f.Text, lost) }) {
			return nil
		}
		return fmt.Errorf("exit code %d: %+v", code, answer)
	})
	undo()
	awaitStatus(t, l, "node2", "healthy", "", "")
}

// The status names pods that another network plugin wired before Contiv was installed.
func TestStatusTellsOfPodsThatContivDidNotWire(t *testing.T) {
	l := require(t)
	awaitStatus(t, l, "node2", "healthy", "", "")
	const object = `{apiVersion: v1, kind: Pod, metadata: {name: stranger, namespace: default, uid: 5d0b9f6a-55b1-4a0e-8a0c-2f1f6f0a4f11},
spec: {nodeName: node2, containers: [{name: c, image: i}]},
status: {phase: Running, hostIP: 192.168.16.2, podIP: 10.9.9.9, podIPs: [{ip: 10.9.9.9}]}}
`
	file := l.Path("manifests", "pod_default_stranger.yaml")
	if err := os.WriteFile(file, []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	awaitStatus(t, l, "node2", "degraded", "pods", "pod default/stranger has the address 10.9.9.9 in Kubernetes, but Contiv did not connect it")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, l, "node2", "healthy", "", "")
}

// The status reports a host network that overlaps with a cluster network, until it is removed.
func TestStatusTellsOfOverlappingNetworks(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node2, err := st.Node("node2")
	if err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, l, "node2", "healthy", "", "")
	t.Cleanup(func() { _ = exec.Command("ip", "-n", node2.Netns, "link", "del", "second").Run() })
	for _, c := range []struct{ address, want string }{
		{"192.168.30.77/24", "network 192.168.30.0/24 of interface second overlaps with ipamConfig.vxlanCIDR"},
		{"10.1.77.5/16", "network 10.1.0.0/16 of interface second overlaps with ipamConfig.podSubnetCIDR"},
	} {
		command.In(t, node2.Netns, "ip link add second type bridge; ip addr add "+c.address+" dev second; ip link set second up")
		awaitStatus(t, l, "node2", "degraded", "vswitch", c.want)
		command.In(t, node2.Netns, "ip link del second")
		awaitStatus(t, l, "node2", "healthy", "", "")
	}
}
