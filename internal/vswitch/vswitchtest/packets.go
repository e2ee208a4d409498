package vswitchtest

import (
	"fmt"
	"testing"
	"time"
)

// runPackets builds two nodes of the Topology and an outside host that has no routes to pods or
// inner networks of nodes.
func runPackets(t *testing.T, c Config) {
	one, ok := c.NewSite(t).(PacketSite)
	if !ok {
		t.Skip("this driver carries no packets")
	}
	two := c.NewSite(t).(PacketSite)
	one.Connect(t, two)
	n1 := newNode(t, one, Topology{Node: 1, NIC: one.NIC(), Pods: 2})
	n2 := newNode(t, two, Topology{Node: 2, NIC: two.NIC(), Pods: 1})
	const outside = "192.168.16.77"
	outsider := two.Self()
	if site, ok := one.(OutsideSite); ok {
		outsider = site.Outside(t, outside+"/24")
	} else { // the NIC of node 2 replaces the outside host, with an additional address
		outsider.Exec(t, "ip addr add "+outside+"/24 dev "+two.NIC())
	}
	shared := n1.agent.vs.Capabilities().HostStackShared

	reach := func(name string, from *Host, to *Host, addr string) {
		t.Run(name, func(t *testing.T) {
			if err := from.Ping(addr, 56, 5*time.Second); err != nil {
				t.Errorf("ping: %v", err)
			}
			if err := from.Ping(addr, MTU-28, 5*time.Second); err != nil {
				t.Errorf("ping with packets of the size of the MTU: %v", err)
			}
			if _, err := from.Ask(addr, to.Serve(t, addr)); err != nil {
				t.Errorf("TCP: %v", err)
			}
		})
	}
	reach("pod to pod on one node", n1.pods[0], n1.pods[1], n1.topo.PodIP(2))
	reach("pod to pod across nodes", n1.pods[0], n2.pods[0], n2.topo.PodIP(1))
	reach("pod to pod across nodes, backwards", n2.pods[0], n1.pods[1], n1.topo.PodIP(2))
	if shared {
		reach("pod to its gateway", n1.pods[0], one.Self(), n1.topo.Gateway())
		reach("node to its pod", one.Self(), n1.pods[0], n1.topo.PodIP(1))
		reach("node to a pod of another node", one.Self(), n2.pods[0], n2.topo.PodIP(1))
	} else {
		// The vswitch answers itself, because only it has the address.
		wantPing(t, "pod to its gateway", n1.pods[0], n1.topo.Gateway())
	}

	t.Run("pod to the outside has the address of its node", func(t *testing.T) {
		seen, err := n1.pods[0].Ask(outside, outsider.Serve(t, outside))
		if err != nil || seen != n1.topo.NodeIP() {
			t.Errorf("the outside saw %q (%v), want %s", seen, err, n1.topo.NodeIP())
		}
	})
	t.Run("pods see each other's addresses", func(t *testing.T) {
		seen, err := n1.pods[0].Ask(n2.topo.PodIP(1), n2.pods[0].Serve(t, n2.topo.PodIP(1)))
		if err != nil || seen != n1.topo.PodIP(1) {
			t.Errorf("the pod saw %q (%v), want %s", seen, err, n1.topo.PodIP(1))
		}
	})
	t.Run("node to its pod uses the gateway's address", func(t *testing.T) {
		if !shared {
			t.Skip("the node has another stack than the vswitch")
		}
		seen, err := one.Self().Ask(n1.topo.PodIP(1), n1.pods[0].Serve(t, n1.topo.PodIP(1)))
		if err != nil || seen != n1.topo.Gateway() {
			t.Errorf("the pod saw %q (%v), want %s", seen, err, n1.topo.Gateway())
		}
	})
	t.Run("packets to unknown pods die on the node", func(t *testing.T) {
		if err := n1.pods[0].Ping("10.1.77.1", 56, time.Second); err == nil {
			t.Error("ping was answered")
		}
	})
	t.Run("a restarted agent drops nothing and changes nothing", func(t *testing.T) {
		server := n2.pods[0].Serve(t, n2.topo.PodIP(1))
		n1.agent.stop()
		if _, err := n1.pods[0].Ask(n2.topo.PodIP(1), server); err != nil {
			t.Errorf("while the agent is down: %v", err)
		}
		n1.agent = startAgent(t, one)
		wantNothingExecuted(t, "resync", n1.agent.resync(n1.topo.Values()...))
		if _, err := n1.pods[0].Ask(n2.topo.PodIP(1), server); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	})
}

type node struct {
	agent *agent
	topo  Topology
	pods  []*Host
}

func newNode(t *testing.T, site PacketSite, topo Topology) *node {
	t.Helper()
	n := &node{agent: startAgent(t, site), topo: topo}
	n.agent.resync(topo.Values()...)
	n.agent.wantConfigured(topo.Values())
	for pod := 1; pod <= topo.Pods; pod++ {
		host := site.Plug(t, topo.TapHostName(pod))
		for _, command := range []string{
			fmt.Sprintf("ip link set dev eth0 address %s mtu %d up", topo.PodMAC(pod), MTU),
			fmt.Sprintf("ip addr add %s/32 dev eth0", topo.PodIP(pod)),
			fmt.Sprintf("ip route add %s/32 dev eth0 scope link", topo.Gateway()),
			fmt.Sprintf("ip route add default via %s dev eth0", topo.Gateway()),
		} {
			host.Exec(t, command)
		}
		// The first pod has a static neighbour entry, the others use ARP.
		if pod == 1 {
			host.Exec(t, fmt.Sprintf("ip neigh replace %s lladdr %s dev eth0 nud permanent", topo.Gateway(), topo.GatewayMAC(pod)))
		}
		n.pods = append(n.pods, host)
	}
	return n
}
