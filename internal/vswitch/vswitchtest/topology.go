package vswitchtest

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Topology describes the values of a node with pods and two peers. It contains at least one value
// of every model.
type Topology struct {
	Node int // 1 to 3; the peers are the other two
	NIC  string
	Pods int
	// NAT66 adds values that need the capability IPv6SourceNAT.
	NAT66 bool
	// DNAT66 adds values that need the capability IPv6DNAT.
	DNAT66 bool
	// Guards adds values that need the capability SourceGuards.
	Guards bool
	// Ranges adds values that need SourceRanges.
	Ranges bool
}

func topology(t testing.TB, site Site, pods int) Topology {
	t.Helper()
	vs := site.Open(t)
	defer vs.Close()
	caps := vs.Capabilities()
	return Topology{Node: 1, NIC: site.NIC(), Pods: pods, NAT66: caps.IPv6SourceNAT, DNAT66: caps.IPv6DNAT, Guards: caps.SourceGuards, Ranges: vs.SourceRanges() != nil}
}

const (
	GatewayLoop = "podGwLoop"
	BVI         = "vxlanBVI"
	Bridge      = "vxlanBD"
	MTU         = 1450
)

func (t Topology) NodeIP() string        { return nodeIP(t.Node) }
func (t Topology) Gateway() string       { return fmt.Sprintf("10.1.%d.1", t.Node) }
func (t Topology) PodIP(pod int) string  { return fmt.Sprintf("10.1.%d.%d", t.Node, pod+1) }
func (t Topology) PodMAC(pod int) string { return fmt.Sprintf("02:fe:00:00:%02x:%02x", t.Node, pod) }
func (t Topology) GatewayMAC(pod int) string {
	return fmt.Sprintf("02:01:00:00:%02x:%02x", t.Node, pod)
}
func (t Topology) Tap(pod int) string         { return fmt.Sprintf("vpp-tap-0123456789abcdef-%d", pod) }
func (t Topology) TapHostName(pod int) string { return models.TapHostIfName(t.Tap(pod)) }

func nodeIP(node int) string     { return fmt.Sprintf("192.168.16.%d", node) }
func vxlanIP(node int) string    { return fmt.Sprintf("192.168.30.%d", node) }
func bviMAC(node int) string     { return fmt.Sprintf("12:2b:00:00:00:%02x", node) }
func tunnelName(node int) string { return fmt.Sprintf("vxlan-default-%d", node) }
func podSubnet(node int) string  { return fmt.Sprintf("10.1.%d.0/24", node) }

// Values returns all values in an order in which a port can create them.
func (t Topology) Values() []proto.Message {
	var values []proto.Message
	add := func(v ...proto.Message) { values = append(values, v...) }
	for pod := 1; pod <= t.Pods && t.Guards; pod++ {
		add(guardOf(t, pod, t.PodIP(pod)))
	}
	for _, v := range t.interfaces() {
		v.SourceGuarded = t.Guards && v.GetType() == vpp_interfaces.Interface_TAP
		add(v)
	}
	add(t.bridge())
	for _, peer := range t.peers() {
		add(
			&vpp_l2.FIBEntry{BridgeDomain: Bridge, PhysAddress: bviMAC(peer), OutgoingInterface: tunnelName(peer), StaticConfig: true},
			&vpp_l3.ARPEntry{Interface: BVI, IpAddress: vxlanIP(peer), PhysAddress: bviMAC(peer), Static: true},
			&vpp_l3.Route{DstNetwork: podSubnet(peer), NextHopAddr: vxlanIP(peer), OutgoingInterface: BVI},
		)
	}
	for pod := 1; pod <= t.Pods; pod++ {
		add(
			&vpp_l3.ARPEntry{Interface: t.Tap(pod), IpAddress: t.PodIP(pod), PhysAddress: t.PodMAC(pod), Static: true},
			&vpp_l3.Route{DstNetwork: t.PodIP(pod) + "/32", NextHopAddr: t.PodIP(pod), OutgoingInterface: t.Tap(pod)},
		)
	}
	add(
		&vpp_l3.VrfTable{Id: 0, Label: "mainVRF-IPv4"},
		&vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: "10.1.0.0/16"},
		&vpp_l3.Route{DstNetwork: "fd00:1::/64", NextHopAddr: "fd00:16::99", OutgoingInterface: t.NIC},
		&vpp_l3.ARPEntry{Interface: t.NIC, IpAddress: "fd00:16::99", PhysAddress: "02:fe:00:00:99:99", Static: true},
		&vpp_l3.Route{DstNetwork: "172.30.0.0/16", NextHopAddr: "192.168.16.200"},
		&vpp_nat.Nat44Global{Forwarding: true},
		&vpp_nat.Nat44Interface{Name: t.NIC, NatOutside: true, OutputFeature: true},
		&vpp_nat.Nat44AddressPool{FirstIp: t.NodeIP(), VrfId: vswitch.AllVRFs},
	)
	for _, l := range t.accessLists() {
		add(l)
	}
	if t.Ranges {
		add(&guard.SourceRanges{Frontends: []*guard.SourceRanges_Frontend{
			{Address: "203.0.113.1", Port: 80, Sources: []string{t.PodIP(1) + "/32", "198.51.100.0/24"}}, {Address: "203.0.113.1", Port: 53, Protocol: guard.SourceRanges_UDP},
		}})
	}
	if t.NAT66 {
		add(&contiv_nat.SourceNAT66{Interface: t.NIC, Address: fmt.Sprintf("fd00:16::%d", t.Node)})
	}
	if t.DNAT66 {
		add(dnat66("default/web", service6(service66, tcp66, 1, 2), service6(service66, udp66, 1)))
	}
	return values
}

func (t Topology) peers() (peers []int) {
	for node := 1; node <= 3; node++ {
		if node != t.Node {
			peers = append(peers, node)
		}
	}
	return peers
}

func (t Topology) interfaces() []*vpp_interfaces.Interface {
	list := []*vpp_interfaces.Interface{
		{
			Name: t.NIC, Type: vpp_interfaces.Interface_DPDK, Enabled: true,
			IpAddresses: []string{t.NodeIP() + "/24", fmt.Sprintf("fd00:16::%d/64", t.Node)},
		},
		{
			Name: GatewayLoop, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true,
			IpAddresses: []string{t.Gateway() + "/24"},
		},
		{
			Name: BVI, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, Mtu: MTU,
			PhysAddress: bviMAC(t.Node), IpAddresses: []string{vxlanIP(t.Node) + "/24"},
		},
	}
	for _, peer := range t.peers() {
		list = append(list, &vpp_interfaces.Interface{
			Name: tunnelName(peer), Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true,
			Link: &vpp_interfaces.Interface_Vxlan{Vxlan: &vpp_interfaces.VxlanLink{
				SrcAddress: t.NodeIP(), DstAddress: nodeIP(peer), Vni: 10,
			}},
		})
	}
	for pod := 1; pod <= t.Pods; pod++ {
		list = append(list, &vpp_interfaces.Interface{
			Name: t.Tap(pod), Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: MTU, PhysAddress: t.GatewayMAC(pod),
			Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: GatewayLoop},
			Link:       &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		})
	}
	return list
}

func (t Topology) bridge() *vpp_l2.BridgeDomain {
	bd := &vpp_l2.BridgeDomain{
		Name: Bridge, Forward: true,
		Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: BVI, BridgedVirtualInterface: true, SplitHorizonGroup: 1}},
	}
	for _, peer := range t.peers() {
		bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: tunnelName(peer), SplitHorizonGroup: 1})
	}
	return bd
}
