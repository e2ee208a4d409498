package policy

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The IDs of the nodes determine their pod subnets.
type publishers struct {
	*rig
	nodes nodesync.Nodes
}

func (p publishers) GetAllNodes() nodesync.Nodes { return p.nodes }

func (publishers) PodSubnets(n *nodesync.Node) []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(n.ID), 0}), 24)}
}

// Published addresses become peers only if they are in the node's pod subnet.
func TestPublishedAddressesOfPeers(t *testing.T) {
	addr := netip.MustParseAddr
	p := publishers{nodes: nodesync.Nodes{
		"node1": {Name: "node1", ID: 1},
		"node2": {Name: "node2", ID: 2, PodAddresses: []nodesync.PodAddresses{
			{Namespace: "default", Name: "web", Interface: "net1", Addresses: []netip.Addr{addr("10.1.2.9"), addr("10.1.1.9"), addr("192.168.16.1")}},
			{Namespace: "default", Name: "thief", Interface: "net1", Addresses: []netip.Addr{addr("10.1.3.9")}},
		}},
	}}
	policy := New(Capabilities{Filter: true}, "node1", p, p, p, p, p, slog.New(slog.DiscardHandler))
	want := map[podmanager.PodID][]processor.Published{
		{Namespace: "default", Name: "web"}: {{Addr: addr("10.1.2.9"), Subnet: netip.MustParsePrefix("10.1.2.0/24")}},
	}
	if diff := cmp.Diff(want, policy.published(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}
