package nodesync_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

// A node may publish anything for its vswitch. Other nodes use what may be its address.
func TestTunnelEndsThatNoNodeHas(t *testing.T) {
	ofPlan := func(addr netip.Addr) string {
		if netip.MustParsePrefix("10.1.0.0/16").Contains(addr) {
			return "podSubnetCIDR 10.1.0.0/16"
		}
		return ""
	}
	for published, want := range map[string]string{
		"10.1.2.2/24":         "in podSubnetCIDR 10.1.0.0/16",
		"0.0.0.0/24":          "no address of a host",
		"127.0.0.1/8":         "no address of a host",
		"224.0.0.1/24":        "no address of a host",
		"255.255.255.255/32":  "no address of a host",
		"192.168.16.255/32":   "no address of a host",
		"169.254.0.1/16":      "no address of a host",
		"::/64":               "no address of a host",
		"::1/128":             "no address of a host",
		"fe80::1/64":          "no address of a host",
		"ff02::1/64":          "no address of a host",
		"::ffff:10.9.0.2/120": "no address of a host",
		"192.168.16.3/24":     "an address of node node3", // in Kubernetes, which node3 does not publish
		"203.0.113.1/24":      "an address of node node1", // in Kubernetes
		"10.9.0.1/24":         "an address of node node1", // of another device
		"10.9.0.2/24":         "",                         // of another device than the one in Kubernetes
		"192.168.16.2/24":     "",
		"fd16::2/64":          "",
	} {
		t.Run(published, func(t *testing.T) {
			n := nodesync.New("node1", memory.New(), nodesync.Self{OfPlan: ofPlan}, &plugintest.Loop{}, plugintest.Logger())
			own := vppNode(1, "node1", "192.168.16.1/24")
			own.HostAddresses = []string{"10.9.0.1"}
			stolen, good := vppNode(2, "node2", published), vppNode(3, "node3", "10.9.0.3/24")
			resync(t, n, state(own, stolen, good, kubeNode("node1", "203.0.113.1"), kubeNode("node2", "192.168.16.2"), kubeNode("node3", "192.168.16.3")))
			used, problems := n.GetAllNodes()["node2"].VPPIPs, n.Problems(ctx)
			if want == "" {
				if len(used) != 1 || used[0].String() != published || len(problems) > 0 {
					t.Errorf("used %v, problems %q", used, problems)
				}
				return
			}
			text := "node node2 publishes the address " + netip.MustParsePrefix(published).Addr().String() + " for its vswitch and does not get it, because it is " + want
			if len(used) > 0 || !slices.Equal(problems, []string{text}) {
				t.Errorf("used %v, problems %q, want %q", used, problems, text)
			}
			if got := n.GetAllNodes()["node3"].VPPIPs; len(got) != 1 {
				t.Errorf("node3 has %v", got)
			}
		})
	}
}

// An address that this machine gets belongs to it from then on, and returns to the other node when this
// machine has it no more.
func TestTunnelEndAtAnAddressOfThisMachine(t *testing.T) {
	loop := &plugintest.Loop{}
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(vppNode(1, "node1", "192.168.16.1/24"), vppNode(2, "node2", "10.9.0.2/24")))
	for _, here := range []bool{true, false} {
		host := nodesync.Host{}
		if here {
			host = nodesync.NewHost(addrs("10.9.0.2"), nil)
		}
		loop.Take()
		if _, err := n.Update(ctx, &nodesync.HostChange{Host: host}, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
		if used := n.GetAllNodes()["node2"].VPPIPs; (len(used) == 0) != here {
			t.Errorf("on this machine: %v, node2 has %v", here, used)
		}
		if events := loop.Take(); len(events) != 2 || events[1].(*nodesync.NodeUpdate).NodeName != "node2" {
			t.Errorf("events %v", events)
		}
	}
}

// Records that are not used are visible until they are corrected or removed.
func TestRecordsThatAreNotUsed(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	s := state(vppNode(1, "node1", "192.168.16.1/24"), vppNode(2, "node2", "192.168.16.2/24"), vppNode(7, "old", "192.168.16.2/24"))
	s["vppnode"]["allocatedIDs/8"], s["vppnode"]["allocatedIDs/x"] = vppNode(9, "node9"), vppNode(10, "node10")
	resync(t, n, s)
	want := []string{
		"the record allocatedIDs/8 of a node is ignored: its id differs from the id in its key",
		"the record allocatedIDs/x of a node is ignored: its key is not an ID",
		"several nodes publish the address 192.168.16.2: node2 has it, and old does not get it; remove the records of deleted nodes",
	}
	if got := n.Problems(ctx); !slices.Equal(got, want) {
		t.Errorf("problems\n%s", strings.Join(got, "\n"))
	}
	for key, value := range s["vppnode"] {
		if key == "allocatedIDs/1" || key == "allocatedIDs/2" {
			continue
		}
		if _, err := n.Update(ctx, &controller.KubeStateChange{Resource: "vppnode", Key: key, PrevValue: value}, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Problems(ctx); len(got) > 0 {
		t.Errorf("problems without these records: %q", got)
	}
}
