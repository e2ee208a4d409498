package localnode

import (
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
)

const (
	// AnyVRF stands for all VRFs in an address pool.
	AnyVRF = 0xFFFFFFFF
	// VXLANPort is the UDP port of the tunnels between nodes.
	VXLANPort = 4789
)

// OutsideInterfaces includes the overlay, because pods of other nodes are outside.
func (n *Node) OutsideInterfaces() (list []string) {
	if !n.HasOwnStack() {
		return nil
	}
	for _, name := range []string{n.Network.GetMainInterface(), n.Network.GetVxlanBVIIfName()} {
		if name != "" {
			list = append(list, name)
		}
	}
	for _, other := range n.Config.Resolved().Other {
		list = append(list, other.Name)
	}
	return list
}

// translatedByRoutes returns the interfaces on which the vswitch translates by routes alone, in
// both directions. They include the host interface if the host shares a card: packets that VPP
// punts to a shared address pass no interface features (stn_ip46_punt_fn), so that replies to the
// host's processes would not be translated back.
func (n *Node) translatedByRoutes() []string {
	list := n.OutsideInterfaces()
	if host := n.Network.GetHostInterconnectIfName(); n.HasOwnStack() && n.SharesCard() && host != "" {
		list = append(list, host)
	}
	return list
}

// RepliesBypassVRF0 reports whether replies of pods to some external clients bypass VRF 0, in which
// the vswitch translates. The VRF of pods routes other nodes and their pods to the overlay.
func (n *Node) RepliesBypassVRF0() bool {
	routing := n.Config.Routing()
	return n.HasOwnStack() && routing.PodVRFID != routing.MainVRFID && n.Network.GetVxlanBVIIfName() != ""
}

// ServiceNetwork returns the network without cluster IPs. A vswitch that shares the host's stack
// finds the uplinks, and the networks of pods, by its routes.
func (n *Node) ServiceNetwork() *contiv_nat.ServiceNetwork {
	network := &contiv_nat.ServiceNetwork{OutsideInterfaces: n.translatedByRoutes()}
	for _, p := range n.PodSubnets() {
		network.Inside = append(network.Inside, p.String())
	}
	if !n.HasOwnStack() {
		return network
	}
	if name := n.Network.GetMainInterface(); name != "" {
		network.Uplinks = append(network.Uplinks, name)
	}
	for _, other := range n.Config.Resolved().Other {
		network.Uplinks = append(network.Uplinks, other.Name)
	}
	if n.Config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		plan := n.Addresses.Plan()
		for _, family := range plan.Families() {
			for _, p := range []netip.Prefix{family.Subnets.Pods, family.Subnets.VPPHost, family.Subnets.VXLAN} {
				if p.IsValid() {
					network.Overlay = append(network.Overlay, p.String())
				}
			}
		}
	}
	return network
}

// GlobalNAT returns the value that all IPv4 NAT depends on. Timeouts are not set if the vswitch
// shares the host's stack.
func (n *Node) GlobalNAT() *vpp_nat.Nat44Global {
	global := &vpp_nat.Nat44Global{Forwarding: true}
	if !n.Caps.HostStackShared {
		global.TcpSessionTimeout, global.OtherSessionTimeout = n.Settings.TCPNATSessionTimeout, n.Settings.OtherNATSessionTimeout
	}
	return global
}

// HairpinPool returns the address pool for pods that reach themselves through a service, or nil
// without an IPv4 pod subnet.
func (n *Node) HairpinPool() *vpp_nat.Nat44AddressPool {
	loopback := n.Loopback(false)
	if !loopback.IsValid() {
		return nil
	}
	return &vpp_nat.Nat44AddressPool{FirstIp: loopback.String(), VrfId: AnyVRF, TwiceNat: true}
}

// NATOptions returns the options of destination NAT, with equal weights of all endpoints.
func (n *Node) NATOptions() nat.Options {
	o := nat.Options{Loopback6: n.Loopback(true), LocalWeight: 1, OneScope: !n.Caps.ClientScopes}
	if n.HasOwnStack() {
		o.Loopback4 = n.Loopback(false)
		if !n.SharesCard() {
			o.Refuser4, o.Refuser6 = n.HostAddress(false), n.HostAddress(true)
		} else { // the host has no separate address
			o.Shared, o.Host = n.OpenAddresses(), n.AllAddresses()
		}
	}
	return o
}
