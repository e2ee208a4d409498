package vswitchtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// link is a type of interface between two nodes. The NIC of node 1 has 10.60.0.1 and fd00:60::1,
// that of node 2 ends with 2.
type link struct {
	name string
	// make returns interface "link" of a node and the values that it needs.
	make func(nic string, node, peer int) []proto.Message
	// frames is set if the link carries Ethernet frames.
	frames bool
}

func (l link) values(nic string, node int) []proto.Message { return l.make(nic, node, 3-node) }

func v4(net, host int) string { return fmt.Sprintf("10.%d.0.%d", net, host) }
func v6(net, host int) string { return fmt.Sprintf("fd00:%d::%d", net, host) }

var links = []link{
	{name: "GRE", make: greLink(vpp_interfaces.GreLink_L3, v4)},
	{name: "GRE over IPv6", make: greLink(vpp_interfaces.GreLink_L3, v6)},
	{name: "GRE that carries Ethernet frames", make: greLink(vpp_interfaces.GreLink_TEB, v4), frames: true},
	{name: "GRE that carries Ethernet frames, over IPv6", make: greLink(vpp_interfaces.GreLink_TEB, v6), frames: true},
	{name: "IPIP", make: ipipLink(v4)},
	{name: "IPIP over IPv6", make: ipipLink(v6)},
	{name: "WireGuard", make: wireGuardLink},
	{name: "VLAN", frames: true, make: func(nic string, _, _ int) []proto.Message {
		return []proto.Message{subInterface("link", nic, 100)}
	}},
	{name: "VLAN in a VLAN", frames: true, make: func(nic string, _, _ int) []proto.Message {
		return []proto.Message{subInterface("outer", nic, 100), subInterface("link", "outer", 200)}
	}},
	{name: "bond", frames: true, make: func(nic string, _, _ int) []proto.Message {
		return []proto.Message{bondOf("link", vpp_interfaces.BondLink_XOR, vpp_interfaces.BondLink_L34, nic)}
	}},
}

func greLink(typ vpp_interfaces.GreLink_Type, addr func(net, host int) string) func(string, int, int) []proto.Message {
	return func(_ string, node, peer int) []proto.Message {
		iface := &vpp_interfaces.Interface{
			Name: "link", Type: vpp_interfaces.Interface_GRE_TUNNEL, Enabled: true,
			Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: typ, SrcAddr: addr(60, node), DstAddr: addr(60, peer)}},
		}
		if typ == vpp_interfaces.GreLink_TEB {
			iface.PhysAddress = fmt.Sprintf("02:00:00:00:60:%02d", node) // a recreated link keeps the MAC address that its neighbours know
		}
		return []proto.Message{iface}
	}
}

func ipipLink(addr func(net, host int) string) func(string, int, int) []proto.Message {
	return func(_ string, node, peer int) []proto.Message {
		return []proto.Message{&vpp_interfaces.Interface{
			Name: "link", Type: vpp_interfaces.Interface_IPIP_TUNNEL, Enabled: true,
			Link: &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{SrcAddr: addr(60, node), DstAddr: addr(60, peer)}},
		}}
	}
}

var (
	privateKeys = []string{1: "sBNOn07hMmOP826SC+QxwhfpVfehZQ31P5SC4P4sE2E=", 2: "sHiaRZ2eyNflen62T2/126KUkjtyciV/ibb03y6IF28="}
	publicKeys  = []string{1: "5NLpdsXc/iXInnF7IMVM8PY9iJwFK7+TpaLdRRfsfwI=", 2: "tOW9x/ri8O/kAJyYZjY5Wvca2rdviJ4KKY+y0jYdGDw="}
)

func wireGuardLink(_ string, node, peer int) []proto.Message {
	return []proto.Message{
		&vpp_interfaces.Interface{
			Name: "link", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Enabled: true,
			Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{
				PrivateKey: privateKeys[node], Port: 51820, SrcAddr: v4(60, node),
			}},
		},
		&vpp_wireguard.Peer{
			WgIfName: "link", PublicKey: publicKeys[peer], Endpoint: v4(60, peer), Port: 51820, PersistentKeepalive: 10,
			AllowedIps: []string{"10.61.0.0/24", fmt.Sprintf("10.6%d.0.0/24", 1+peer), "fd00:61::/64", fmt.Sprintf("fd00:6%d::/64", 1+peer)},
		},
	}
}

func subInterface(name, parent string, vlan uint32) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_SUB_INTERFACE, Enabled: true,
		Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{
			ParentName: parent, SubId: vlan, TagRwOption: vpp_interfaces.SubInterface_POP1,
		}},
	}
}

func bondOf(name string, mode vpp_interfaces.BondLink_Mode, lb vpp_interfaces.BondLink_LoadBalance, members ...string) *vpp_interfaces.Interface {
	link := &vpp_interfaces.BondLink{Id: 7, Mode: mode, Lb: lb}
	for _, m := range members {
		link.BondedInterfaces = append(link.BondedInterfaces, &vpp_interfaces.BondLink_BondedInterface{Name: m})
	}
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_BOND_INTERFACE, Enabled: true, Link: &vpp_interfaces.Interface_Bond{Bond: link},
	}
}

func runLinks(t *testing.T, c Config) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			t.Run("is found by a restarted agent, and removed", func(t *testing.T) {
				site := c.NewSite(t)
				l.need(t, startAgent(t, site), site)
				testLifecycle(t, c, l.node(site, 1))
			})
			t.Run("packets", func(t *testing.T) { l.testPackets(t, c) })
		})
	}
	t.Run("VXLAN to a multicast group", func(t *testing.T) {
		for name, addr := range map[string]func(net, host int) string{"IPv4": v4, "IPv6": v6} {
			t.Run(name, func(t *testing.T) {
				group := map[string]string{"IPv4": "239.1.1.1", "IPv6": "ff05::100"}[name]
				tunnel := func(name, nic string, node int, dst string) *vpp_interfaces.Interface {
					return &vpp_interfaces.Interface{
						Name: name, Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true,
						Link: &vpp_interfaces.Interface_Vxlan{Vxlan: &vpp_interfaces.VxlanLink{
							SrcAddress: addr(60, node), DstAddress: dst, Vni: 77, Multicast: nic,
						}},
					}
				}
				testMulticast(t, c, func(nic string, node int) (tunnels []*vpp_interfaces.Interface) {
					tunnels = append(tunnels, tunnel("link", nic, node, group))
					if c.PeersOfGroups {
						tunnels = append(tunnels, tunnel("peer", "", node, addr(60, 3-node)))
					}
					return tunnels
				})
			})
		}
	})
}

func (l link) need(t *testing.T, a *agent, site Site) {
	t.Helper()
	need(t, a, l.values(site.NIC(), 1), l.nic(site, 1))
}

// need skips the test if the vswitch does not implement the values. others are their dependencies.
// It closes the agent.
func need(t *testing.T, a *agent, values []proto.Message, others ...proto.Message) {
	t.Helper()
	txn := a.NewTransaction()
	for _, v := range slices.Concat(others, values) {
		txn.Put(models.Key(v), v)
	}
	_, _ = txn.Commit(t.Context())
	for _, v := range values {
		if s := a.ValueStatus(models.Key(v)).GetValue(); s.GetState() == pb.ValueState_UNIMPLEMENTED {
			if !isReason(s) {
				t.Errorf("no reason why it is unimplemented: %q", s.GetError())
			}
			t.Skip(s.GetError())
		}
	}
	a.resync()
	a.stop()
}

func nicOf(site Site, node int) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: site.NIC(), Type: vpp_interfaces.Interface_DPDK, Enabled: true,
		IpAddresses: []string{v4(60, node) + "/24", v6(60, node) + "/64"},
	}
}

// node returns the values of a node with the link and a host. Network 61 is on the link, 62 and 63
// are behind the nodes.
func (l link) node(site Site, node int) []proto.Message {
	peer := 3 - node
	values := append(l.values(site.NIC(), node),
		tap("p", v4(61+node, 9)+"/24", v6(61+node, 9)+"/64"),
		&vpp_l3.Route{DstNetwork: fmt.Sprintf("10.6%d.0.0/24", 1+peer), NextHopAddr: v4(61, peer), OutgoingInterface: "link"},
		&vpp_l3.Route{DstNetwork: fmt.Sprintf("fd00:6%d::/64", 1+peer), NextHopAddr: v6(61, peer), OutgoingInterface: "link"})
	for _, v := range values {
		if iface, ok := v.(*vpp_interfaces.Interface); ok && iface.GetName() == "link" {
			iface.IpAddresses = []string{v4(61, node) + "/24", v6(61, node) + "/64"}
		}
	}
	return append(values, l.nic(site, node))
}

func (l link) testPackets(t *testing.T, c Config) {
	one, two := newBench(t, c), newBench(t, c)
	l.need(t, startAgent(t, c.NewSite(t)), one.site)
	one.site.Connect(t, two.site)
	hosts := map[int]*Host{}
	for node, b := range map[int]*bench{1: one, 2: two} {
		values := l.node(b.site, node)
		b.resync(values...)
		b.wantConfigured(values)
		hosts[node] = b.host("p", v4(61+node, 1)+"/24", v6(61+node, 1)+"/64")
		hosts[node].Exec(t, "ip route add default via "+v4(61+node, 9))
		hosts[node].Exec(t, "ip -6 route add default via "+v6(61+node, 9))
	}
	across := func(when string) {
		t.Helper()
		wantPing(t, when, hosts[1], v4(63, 1))
		wantPing(t, when, hosts[2], v4(62, 1))
		wantPing(t, when, hosts[1], v6(63, 1))
		if _, err := hosts[1].Ask(v4(63, 1), hosts[2].Serve(t, v4(63, 1))); err != nil {
			t.Errorf("%s: TCP: %v", when, err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); hosts[1].Ping(v4(63, 1), 56, time.Second) != nil && time.Now().Before(deadline); {
		// the cable between the nodes was just connected
	}
	across("at first")

	values := l.node(one.site, 1)
	one.stop()
	across("without an agent")
	one.agent = startAgent(t, one.site)
	wantNothingExecuted(t, "resync after a restart", one.resync(values...))
	across("after a restart")

	down := proto.CloneOf(values[indexOfLink(values)].(*vpp_interfaces.Interface))
	down.Enabled = false
	one.put(down)
	wantNoPing(t, "while the link is disabled", hosts[1], v4(63, 1))
	one.put(values[indexOfLink(values)])
	across("after it was disabled")

	without := one.NewTransaction()
	for _, v := range l.values(one.site.NIC(), 1) {
		without.Delete(models.Key(v))
	}
	if _, err := without.Commit(t.Context()); err != nil {
		t.Errorf("deleting the link: %v", err)
	}
	wantNoPing(t, "without the link", hosts[1], v4(63, 1))
	one.put(values...)
	one.wantConfigured(values)
	across("with a new link")
	if l.frames {
		testBridgedLink(t, one, two, l)
	}
}

func (l link) nic(site Site, node int) *vpp_interfaces.Interface {
	nic := nicOf(site, node)
	if l.name == "bond" {
		nic.IpAddresses = nil
	}
	return nic
}

func indexOfLink(values []proto.Message) int {
	for i, v := range values {
		if iface, ok := v.(*vpp_interfaces.Interface); ok && iface.GetName() == "link" {
			return i
		}
	}
	return -1
}

func testBridgedLink(t *testing.T, one, two *bench, l link) {
	t.Helper()
	hosts := map[int]*Host{}
	for node, b := range map[int]*bench{1: one, 2: two} {
		values := append(l.values(b.site.NIC(), node), l.nic(b.site, node), tap("q"), learningBridge("link", "q"))
		b.resync(values...)
		b.wantConfigured(values)
		hosts[node] = b.host("q", v4(64, node)+"/24")
	}
	wantPing(t, "through bridged links", hosts[1], v4(64, 2))
}

func learningBridge(ports ...string) *vpp_l2.BridgeDomain {
	bd := &vpp_l2.BridgeDomain{Name: "bd", Learn: true, Flood: true, UnknownUnicastFlood: true, Forward: true}
	for _, p := range ports {
		bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: p})
	}
	return bd
}

// testMulticast connects the bridge domains of two nodes by a multicast group. tunnels returns the
// tunnels of a node.
func testMulticast(t *testing.T, c Config, tunnels func(nic string, node int) []*vpp_interfaces.Interface) {
	values := func(site Site, node int) []proto.Message {
		list, bd := []proto.Message{nicOf(site, node), tap("p")}, learningBridge("p")
		for _, tunnel := range tunnels(site.NIC(), node) {
			list = append(list, tunnel)
			bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: tunnel.GetName(), SplitHorizonGroup: 1})
		}
		return append(list, bd)
	}
	site := c.NewSite(t)
	a := startAgent(t, site)
	txn := a.NewTransaction()
	for _, v := range values(site, 1) {
		txn.Put(models.Key(v), v)
	}
	_, _ = txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	if s := a.ValueStatus(models.VPPInterfaceKey("link")).GetValue(); isReason(s) {
		t.Skip(s.GetError())
	}
	a.stop()
	t.Run("is found by a restarted agent, and removed", func(t *testing.T) { testLifecycle(t, c, values(site, 1)) })
	t.Run("packets", func(t *testing.T) {
		one, two := newBench(t, c), newBench(t, c)
		one.site.Connect(t, two.site)
		var hosts []*Host
		for i, b := range []*bench{one, two} {
			b.resync(values(b.site, i+1)...)
			hosts = append(hosts, b.host("p", v4(65, i+1)+"/24"))
		}
		wantPing(t, "through the group", hosts[0], v4(65, 2))
		// Broadcasts go only to the group, despite tunnels to peers.
		received := newPingCounter(t, hosts[1])
		hosts[0].Exec(t, "ip neigh replace "+v4(65, 99)+" lladdr ff:ff:ff:ff:ff:ff dev eth0 nud permanent")
		_, _ = hosts[0].Try("ping -n -c 1 -W 0.5 " + v4(65, 99))
		received.want("to all", 1, 0)
		one.stop()
		one.agent = startAgent(t, one.site)
		wantNothingExecuted(t, "resync after a restart", one.resync(values(one.site, 1)...))
		hosts[0].Exec(t, "ip neigh flush dev eth0")
		wantPing(t, "after a restart", hosts[0], v4(65, 2))
		two.resync(values(two.site, 2)[:2]...)
		if err := hosts[0].Ping(v4(65, 2), 56, time.Second); err == nil {
			t.Error("a node that has left the group answers")
		}
	})
}
