package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// The address of a node's NIC changes, as it does when a DHCP server gives another
// lease: the overlay follows, on both sides, and pods go on talking.
func TestNodeAddressChanges(t *testing.T) {
	require(t)
	l := labWith(t, "")
	added := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
	if err := ping(t, added[0], added[1]); err != nil {
		t.Fatal(err)
	}
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	node1 := nodes[0].Netns
	// Without an address for a moment, as between two leases.
	command.In(t, node1, "ip address flush dev eth0")
	command.In(t, node1, "ip address add 192.168.16.77/24 dev eth0; ip route add default via 192.168.16.254")
	await.That(t, "node2 knows the new address of node1", func() error {
		var report nodesync.NodesReport
		if err := l.Agent("node2").Get(t.Context(), nodesync.NodesURL, &report); err != nil {
			return err
		}
		for _, n := range report.Nodes {
			if n.Name == "node1" && slices.Contains(n.VPPIPs, "192.168.16.77/24") {
				return nil
			}
		}
		return errors.New("it does not")
	})
	await.That(t, "packets between the nodes' pods", func() error { return ping(t, added[0], added[1]) })
	_, err = lab.Ping(t.Context(), added[0].Endpoint(), lab.Endpoint{Address: lab.OutsideAddress.Addr()})
	if err != nil {
		t.Errorf("the pod does not reach the outside, by the new address: %v", err)
	}

	// A smaller MTU of the NIC is a smaller MTU of pods.
	command.In(t, node1, "ip link set eth0 mtu 1400")
	await.That(t, "the pod's MTU follows", func() error {
		if out := command.In(t, added[0].Netns, "ip link show eth0"); !strings.Contains(out, "mtu 1350 ") {
			return errors.New(out)
		}
		return nil
	})
	labtest.RequireQuiet(t, l)
}
