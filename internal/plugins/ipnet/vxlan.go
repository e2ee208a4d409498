package ipnet

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
)

const vxlanVNI = 10

// vxlanSplitHorizon is the group of all bridge domain interfaces, between which packets are not
// forwarded.
const vxlanSplitHorizon = 1

func (n *IPNet) addTransport(ctx context.Context, config values, node *thisNode) {
	n.addTransportBase(config, node)
	for name, other := range n.nodes.GetAllNodes() {
		if name != n.config.NodeName() {
			config.addAll(n.connectivity(ctx, node, other))
		}
	}
}

func (n *IPNet) addTransportBase(config values, node *thisNode) {
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		n.addVXLANBridge(config, node)
	}
}

// connectivity returns the configuration for another node, nil if it is unreachable. It logs a node
// outside the address plan, which must not affect others.
func (n *IPNet) connectivity(ctx context.Context, node *thisNode, other *nodesync.Node) values {
	config := make(values)
	remote, err := n.remote(node, other)
	if err != nil {
		controller.Logger(ctx, n.log).Error("Connecting a node failed", "error", err)
	}
	if remote == nil {
		return config
	}
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		n.addVXLANTunnel(config, node, remote)
	} else {
		n.addNoOverlayRoutes(config, node, remote)
	}
	return config
}

type remote struct {
	id        uint32
	local, ip netip.Addr
	families  []remoteFamily
}

type remoteFamily struct {
	// ip is the node's own address of this version, or the zero Addr.
	ip           netip.Addr
	destinations []netip.Prefix
	vxlanIP      netip.Addr
	mgmtIPs      []netip.Addr
}

// remote returns nil for an unreachable node, and an error for a node outside the address plan.
func (n *IPNet) remote(node *thisNode, other *nodesync.Node) (*remote, error) {
	if other == nil || other.ID == 0 || !n.caps.HostStackShared && len(other.MgmtIPs) == 0 {
		return nil, nil
	}
	r := &remote{id: other.ID}
	for _, own := range node.ips {
		if ip := ofVersion(other.VPPIPs, own.Addr().Is6()); ip.IsValid() {
			r.local, r.ip = own.Addr(), ip.Addr()
			break
		}
	}
	if !r.ip.IsValid() {
		return nil, nil
	}
	for i := range node.families {
		f, err := n.remoteFamily(&node.families[i], other)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", other.Name, err)
		}
		if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport || f.ip.IsValid() && node.ipOf(f.ip.Is6()).IsValid() {
			r.families = append(r.families, f)
		}
	}
	return r, nil
}

// hostBehind reports whether the host of another node is reached through its vswitch, which has its
// own network stack. Then the host sends to pods from its interconnect address, which needs a
// route.
//
// If a node does not report its stack, a vswitch with its own stack assumes the same. For a vswitch
// that shares the host's stack, the node has its own if Kubernetes knows none of its addresses.
func (n *IPNet) hostBehind(other *nodesync.Node) bool {
	switch {
	case other.OwnStack != nil:
		return *other.OwnStack
	case !n.caps.HostStackShared:
		return true
	}
	return len(other.MgmtIPs) > 0 && !slices.ContainsFunc(other.VPPIPs, func(p netip.Prefix) bool { return slices.Contains(other.MgmtIPs, p.Addr()) })
}

func (n *IPNet) remoteFamily(own *family, other *nodesync.Node) (f remoteFamily, err error) {
	f.ip = ofVersion(other.VPPIPs, own.isIPv6()).Addr()
	podSubnet, err := n.ipam.PodSubnet(&own.plan, other)
	if err != nil {
		return f, err
	}
	f.destinations = append(f.destinations, podSubnet)
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		vxlanIP, err := own.plan.VXLANIP(other.ID)
		if err != nil {
			return f, err
		}
		f.vxlanIP = vxlanIP.Addr()
	}
	if n.hostBehind(other) && own.plan.Subnets.VPPHost.IsValid() {
		hostSubnet, err := own.plan.VPPHostSubnet(other.ID)
		if err != nil {
			return f, err
		}
		f.destinations = append(f.destinations, hostSubnet)
	}
	if n.caps.HostStackShared {
		return f, nil // hosts reach each other directly
	}
	for _, ip := range other.MgmtIPs {
		if ip.Is6() == own.isIPv6() {
			f.mgmtIPs = append(f.mgmtIPs, ip)
			f.destinations = append(f.destinations, single(ip))
		}
	}
	return f, nil
}

// addVXLANBridge configures the bridge domain of all tunnels and its interface for pods. It neither
// learns nor floods, because all addresses are configured.
func (n *IPNet) addVXLANBridge(config values, node *thisNode) {
	config.add(&vpp_interfaces.Interface{
		Name: vxlanBVIName, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true,
		Vrf: node.podVRF, IpAddresses: prefixStrings(node.vxlanIPs()), PhysAddress: OverlayMAC(node.id),
		// The host's own packets must also fit into the overlay.
		Mtu: node.podMTU,
	})
	bd := &vpp_l2.BridgeDomain{
		Name: vxlanBDName, Forward: true,
		Interfaces: []*vpp_l2.BridgeDomain_Interface{
			{Name: vxlanBVIName, BridgedVirtualInterface: true, SplitHorizonGroup: vxlanSplitHorizon},
		},
	}
	var ids []uint32
	for name, other := range n.nodes.GetAllNodes() {
		if name == n.config.NodeName() {
			continue
		}
		if r, _ := n.remote(node, other); r != nil {
			ids = append(ids, r.id)
		}
	}
	slices.SortFunc(ids, cmp.Compare)
	for _, id := range ids {
		bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: tunnelName(id), SplitHorizonGroup: vxlanSplitHorizon})
	}
	config.add(bd)
}

func (n *IPNet) addVXLANTunnel(config values, node *thisNode, r *remote) {
	config.add(
		&vpp_interfaces.Interface{
			Name: tunnelName(r.id), Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true, Vrf: node.mainVRF,
			Link: &vpp_interfaces.Interface_Vxlan{Vxlan: &vpp_interfaces.VxlanLink{
				SrcAddress: r.local.String(), DstAddress: r.ip.String(), Vni: vxlanVNI,
			}},
		},
		&vpp_l2.FIBEntry{BridgeDomain: vxlanBDName, PhysAddress: OverlayMAC(r.id), OutgoingInterface: tunnelName(r.id),
			Action: vpp_l2.FIBEntry_FORWARD, StaticConfig: true},
	)
	for _, f := range r.families {
		config.add(&vpp_l3.ARPEntry{Interface: vxlanBVIName, IpAddress: f.vxlanIP.String(), PhysAddress: OverlayMAC(r.id), Static: true})
		for _, network := range f.destinations {
			config.add(&vpp_l3.Route{VrfId: node.podVRF, DstNetwork: network.String(),
				NextHopAddr: f.vxlanIP.String(), OutgoingInterface: vxlanBVIName})
		}
		if !n.caps.MultipleVRFs {
			continue
		}
		for _, ip := range f.mgmtIPs {
			// Keep the tunnel's own packets out of the tunnel.
			if ip != r.ip {
				config.add(interVRF(single(ip), node.mainVRF, node.podVRF))
			}
		}
	}
}
