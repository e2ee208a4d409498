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
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/nodesync"
)

// vxlanVNI is the network identifier of the pods' default network.
const vxlanVNI = 10

// vxlanSplitHorizon is the group of all interfaces of the bridge domain: what came
// from one tunnel must not go into another.
const vxlanSplitHorizon = 1

// addTransport configures the connections to all other nodes.
func (n *IPNet) addTransport(ctx context.Context, config values, node *thisNode) {
	n.addTransportBase(config, node)
	for name, other := range n.nodes.GetAllNodes() {
		if name != n.config.NodeName() {
			config.addAll(n.connectivity(ctx, node, other))
		}
	}
}

// addTransportBase configures what all connections have in common.
func (n *IPNet) addTransportBase(config values, node *thisNode) {
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		n.addVXLANBridge(config, node)
	}
}

// connectivity configures the connection to another node; nothing if it cannot
// be reached. A node that does not fit into the address plan is reported, and
// must not harm the others.
func (n *IPNet) connectivity(ctx context.Context, node *thisNode, other *nodesync.Node) values {
	config := make(values)
	remote, err := n.remote(node, other)
	if err != nil {
		controller.Logger(ctx, n.log).Error("Node cannot be connected", "error", err)
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

// remote is another node with its addresses.
type remote struct {
	id         uint32
	ip         netip.Addr
	podSubnet  netip.Prefix
	hostSubnet netip.Prefix // only if the host's stack is not shared
	mgmtIPs    []netip.Addr // likewise
	vxlanIP    netip.Addr   // only with VXLAN
}

// remote returns nil for nodes that cannot be reached (yet), and an error for
// those that do not fit into the address plan.
func (n *IPNet) remote(node *thisNode, other *nodesync.Node) (*remote, error) {
	if other == nil || other.ID == 0 || !node.ip.IsValid() {
		return nil, nil
	}
	if !n.caps.HostStackShared && len(other.MgmtIPs) == 0 {
		return nil, nil
	}
	reached := slices.IndexFunc(other.VPPIPs, func(p netip.Prefix) bool { return p.Addr().Is6() == node.ip.Addr().Is6() })
	if reached < 0 {
		return nil, nil
	}
	r := &remote{id: other.ID, ip: other.VPPIPs[reached].Addr()}
	plan := n.ipam.Plan()
	var err error
	if r.podSubnet, err = plan.PodSubnet(other.ID); err != nil {
		return nil, fmt.Errorf("node %s: %w", other.Name, err)
	}
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		vxlanIP, err := plan.VXLANIP(other.ID)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", other.Name, err)
		}
		r.vxlanIP = vxlanIP.Addr()
	}
	if !n.caps.HostStackShared {
		if r.hostSubnet, err = plan.VPPHostSubnet(other.ID); err != nil {
			return nil, fmt.Errorf("node %s: %w", other.Name, err)
		}
		r.mgmtIPs = other.MgmtIPs
	}
	return r, nil
}

// destinations lists the networks behind a remote node.
func (r *remote) destinations() []netip.Prefix {
	networks := []netip.Prefix{r.podSubnet}
	if r.hostSubnet.IsValid() {
		networks = append(networks, r.hostSubnet)
	}
	for _, ip := range r.mgmtIPs {
		networks = append(networks, single(ip))
	}
	return networks
}

// addVXLANBridge configures the bridge domain of all tunnels and its interface
// for pods. Nothing is learned or flooded: all addresses are known.
func (n *IPNet) addVXLANBridge(config values, node *thisNode) {
	config.add(&vpp_interfaces.Interface{
		Name: vxlanBVIName, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true,
		Vrf: node.podVRF, IpAddresses: []string{node.vxlanIP.String()}, PhysAddress: bviMAC(node.id),
		// What the host itself sends must fit into the overlay as well.
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

// addVXLANTunnel configures the tunnel to another node, and what is behind it.
func (n *IPNet) addVXLANTunnel(config values, node *thisNode, r *remote) {
	config.add(
		&vpp_interfaces.Interface{
			Name: tunnelName(r.id), Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true, Vrf: node.mainVRF,
			Link: &vpp_interfaces.Interface_Vxlan{Vxlan: &vpp_interfaces.VxlanLink{
				SrcAddress: node.ip.Addr().String(), DstAddress: r.ip.String(), Vni: vxlanVNI,
			}},
		},
		&vpp_l3.ARPEntry{Interface: vxlanBVIName, IpAddress: r.vxlanIP.String(), PhysAddress: bviMAC(r.id), Static: true},
		&vpp_l2.FIBEntry{BridgeDomain: vxlanBDName, PhysAddress: bviMAC(r.id), OutgoingInterface: tunnelName(r.id),
			Action: vpp_l2.FIBEntry_FORWARD, StaticConfig: true},
	)
	for _, network := range r.destinations() {
		config.add(&vpp_l3.Route{VrfId: node.podVRF, DstNetwork: network.String(),
			NextHopAddr: r.vxlanIP.String(), OutgoingInterface: vxlanBVIName})
	}
	if !n.caps.MultipleVRFs {
		return
	}
	for _, ip := range r.mgmtIPs {
		// The tunnel's own packets must not be sent into the tunnel.
		if ip != r.ip {
			config.add(interVRF(single(ip), node.mainVRF, node.podVRF))
		}
	}
}
