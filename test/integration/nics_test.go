package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// A second NIC of otherVPPInterfaces gets its address, its gateway becomes the default gateway, and
// SNAT to it uses the address of the NIC.
func TestSecondNIC(t *testing.T) {
	require(t)
	l := labWith(t, "")
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	node1, peer := nodes[0].Netns, fmt.Sprintf("it%d-peer", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", peer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", peer).Run() })
	command.In(t, node1, `ip route del default; ip link add eth1 type veth peer name eth0 netns `+peer)
	command.In(t, peer, `ip link set lo up; ip link set eth0 up; ip address add 10.50.0.254/24 dev eth0; ip address add 198.51.100.9/32 dev lo`)

	config := l.Path("nodes", "node1", "contiv.conf")
	if err := l.StopAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(`
nodeConfig:
- nodeName: node1
  gateway: 10.50.0.254
  mainVPPInterface: {interfaceName: eth0, useDHCP: false}
  otherVPPInterfaces:
  - {interfaceName: eth1, ip: 10.50.0.1/24}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if out := command.In(t, node1, "ip -br address show eth1"); !strings.Contains(out, "10.50.0.1/24") || !strings.Contains(out, "UP") {
		t.Errorf("eth1: %s", out)
	}
	added := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
	if err := ping(t, added[0], added[1]); err != nil {
		t.Errorf("between nodes: %v", err)
	}
	await.That(t, "the pod reaches hosts behind the second NIC", func() error {
		out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", added[0].Netns, "ping", "-n", "-q", "-c2", "-i0.02", "-W1", "198.51.100.9").CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		return nil
	})
	labtest.RequireQuiet(t, l)
	requireRestartWithoutOperations(t, l, "node1")

	if err := errors.Join(l.StopAgent(t.Context(), "node1"), os.WriteFile(config, nil, 0o600), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	if out := command.In(t, node1, "ip -br address show eth1"); strings.Contains(out, "10.50.0.1/24") {
		t.Errorf("the address that was assigned is left: %s", out)
	}
	labtest.RequireQuiet(t, l)
}
