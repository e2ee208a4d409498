package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// testNodesAsPeers: a nodes peer of a rule matches all addresses of a node, but no pod.
func (l *objectsLab) testNodesAsPeers(t *testing.T) {
	state, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node := state.Nodes[1]
	neighbour := l.add(t, "neighbour", "node2")
	port := l.host(neighbour.Netns).Serve(t, neighbour.Address.String())
	// A second NIC, which Kubernetes does not know.
	command.In(t, node.Netns, "ip link add second type bridge; ip link set second up; ip address add 10.77.0.2/24 dev second; ip address add fd77::2/64 dev second nodad")
	t.Cleanup(func() { command.In(t, node.Netns, "ip link del second") })
	for _, other := range state.Nodes[:1] {
		command.In(t, other.Netns, fmt.Sprintf("ip route add 10.77.0.2 via %v; ip -6 route add fd77::2 via fd16::2", node.Address.Addr()))
		t.Cleanup(func() { command.In(t, other.Netns, "ip route del 10.77.0.2; ip -6 route del fd77::2") })
	}
	var addrs []netip.Addr
	for line := range strings.Lines(command.Run(t, "ip", "-netns", node.Netns, "-oneline", "address", "show", "scope", "global")) {
		addr := netip.MustParsePrefix(strings.Fields(line)[3]).Addr()
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	for _, want := range []string{node.Address.Addr().String(), "fd16::2", "10.1.2.1", "fd10:1:0:2::1", "192.168.30.2", "fd30::2", "10.77.0.2", "fd77::2"} {
		if !slices.Contains(addrs, netip.MustParseAddr(want)) {
			t.Errorf("node2 has the addresses %v, want %s among them", addrs, want)
		}
	}
	ports := map[netip.Addr]int{}
	for _, addr := range addrs {
		ports[addr] = l.host(node.Netns).Serve(t, addr.String())
	}
	reached := func(t *testing.T, from lab.Pod, may bool) {
		t.Helper()
		for _, addr := range addrs {
			await.That(t, fmt.Sprintf("%s reaches node2 at %v: %v", from.Name, addr, may), func() error {
				if _, err := l.host(from.Netns).Ask(addr.String(), ports[addr]); (err == nil) != may {
					return fmt.Errorf("got %v", err)
				}
				return nil
			})
		}
	}
	policy := func(rules string) string {
		return fmt.Sprintf(`apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: nodes}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {}}
  egress: [%s]
`, rules)
	}
	reached(t, l.near, true)
	l.keep(t, "nodes", policy("{action: Deny, to: [{nodes: {}}]}"))
	reached(t, l.near, false)
	l.isReached(t, l.near, neighbour, port, true)
	reached(t, l.far, true) // a node and its own pods always reach each other

	l.keep(t, "nodes", policy("{action: Accept, to: [{nodes: {}}]}, {action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}"))
	reached(t, l.near, true)
	l.isReached(t, l.near, neighbour, port, false)

	l.keep(t, "nodes", policy("{action: Deny, to: [{nodes: {}}]}"))
	reached(t, l.near, false)
	labtest.RequireQuietRestart(t, l.Lab, "node1")
	reached(t, l.near, false)
}
