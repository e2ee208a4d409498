package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// A DHCP server may lease another address of a node's NIC. The overlay follows on both sides.
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
	// Remove the old address first, as between two leases.
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

	// Pods follow the MTU of the NIC.
	command.In(t, node1, "ip link set eth0 mtu 1400")
	await.That(t, "the pod's MTU follows", func() error {
		if out := command.In(t, added[0].Netns, "ip link show eth0"); !strings.Contains(out, "mtu 1350 ") {
			return errors.New(out)
		}
		return nil
	})
	labtest.RequireQuiet(t, l)
}

// With several peers, all tunnels share a kernel device. They follow a new address in one
// transaction without a failed operation.
func TestNodeAddressChangesAmongPeers(t *testing.T) {
	require(t)
	const (
		old4, new4 = "192.168.16.1/24", "192.168.16.77/24"
		old6, new6 = "2001:db8:16::1/64", "2001:db8:16::77/64"
	)
	const elsewhere = "192.168.77.1"
	wayToEtcd := fmt.Sprintf("ip address add %s/32 dev lo; ip route add %v/32 dev eth0 src %[1]s", elsewhere, lab.RouterAddress.Addr()) // the kernel removes the routes of eth0 with its last address
	replace := func(old, new string) string {
		return fmt.Sprintf("ip address add %s dev eth0 nodad; ip address del %s dev eth0; ip address add %[1]s dev eth0 nodad 2>/dev/null || true", new, old)
	}
	dual := func(o *lab.Options) { o.DualStack = true }
	for _, test := range []struct {
		name   string
		peers  int
		set    func(*lab.Options)
		change string
		want   []string // addresses of the node after the change
	}{
		{"two peers, IPv4", 2, func(*lab.Options) {}, replace(old4, new4), []string{new4}},
		{"ten peers, IPv4", 10, func(*lab.Options) {}, replace(old4, new4), []string{new4}},
		{"two peers, IPv6", 2, func(o *lab.Options) { o.IPv6 = true }, replace(old6, new6), []string{new6}},
		{"two peers, IPv4 of a dual-stack node", 2, dual, replace(old4, new4), []string{new4, old6}},
		{"two peers, IPv6 of a dual-stack node", 2, dual, replace(old6, new6), []string{old4, new6}},
		// Keeps the IPv4 route to etcd.
		{"two peers, from both versions to IPv6", 2, dual, "ip address del " + old4 + " dev eth0; " + wayToEtcd, []string{old6}},
		{"two peers, from both versions to IPv4", 2, dual, "ip address del " + old6 + " dev eth0", []string{old4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options("ap")
			opts.Nodes = 1 + test.peers
			test.set(&opts)
			l := labtest.Up(t, opts)
			var specs []lab.PodSpec
			for n := range opts.Nodes {
				specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("a%d", n+1), Node: fmt.Sprintf("node%d", n+1)})
			}
			pods := labtest.AddPods(t, l, specs...)
			nodes, err := l.Nodes()
			if err != nil {
				t.Fatal(err)
			}
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			command.In(t, st.Underlay(), "ip route add "+elsewhere+"/32 dev nodes")
			command.In(t, nodes[0].Netns, test.change)
			for _, n := range nodes {
				await.That(t, n.Name+" knows the addresses of node1", func() error { return knowsAddresses(t, l, n.Name, "node1", test.want) })
			}
			for _, p := range pods[1:] {
				await.That(t, "packets between "+pods[0].Name+" and "+p.Name, func() error { return ping(t, pods[0], p) })
			}
			for _, n := range nodes {
				requireNoFailedOperations(t, l, n.Name)
			}
			labtest.RequireQuiet(t, l)
		})
	}
}

// knowsAddresses returns an error unless node has exactly these addresses recorded for other, which
// may be node itself.
func knowsAddresses(t *testing.T, l *lab.Lab, node, other string, want []string) error {
	var report nodesync.NodesReport
	if err := l.Agent(node).Get(t.Context(), nodesync.NodesURL, &report); err != nil {
		return err
	}
	for _, n := range report.Nodes {
		if n.Name == other && slices.Equal(n.VPPIPs, want) {
			return nil
		}
	}
	return fmt.Errorf("want %v of %s, have %+v", want, other, report.Nodes)
}

func requireNoFailedOperations(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	var txns []*record.Txn
	if err := l.Agent(node).Get(t.Context(), "/scheduler/txn-history", &txns); err != nil {
		t.Fatal(err)
	}
	for _, txn := range txns {
		for _, op := range txn.Executed {
			if op.NewErr != nil || op.NewState == pb.ValueState_FAILED || op.NewState == pb.ValueState_RETRYING {
				t.Errorf("%s: transaction %d: %v of %s: %v", node, txn.SeqNum, op.Operation, op.Key, op.NewErr)
			}
		}
	}
}
