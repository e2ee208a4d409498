package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
)

const (
	podGatewayNumber    = 1
	hostInVPPNumber     = 1
	hostInLinuxNumber   = 2
	hostClientsNumber   = 3
	maxNumberedHostBits = 63 // further host bits stay unused
)

// Plan computes the addresses that follow from the node IDs, for one IP version. It has no state.
type Plan struct {
	Subnets contivconf.Subnets
	// ExcludedNodeIPs are addresses in the node interconnect that no node may get, such as the
	// gateway.
	ExcludedNodeIPs []netip.Addr
}

// Families returns the plans of all IP versions, the primary one first.
func (p *Plan) Families() []Plan {
	var plans []Plan
	for _, subnets := range p.Subnets.Families() {
		plans = append(plans, Plan{Subnets: subnets, ExcludedNodeIPs: p.ExcludedNodeIPs})
	}
	return plans
}

// nodePart returns a node's part of a subnet. IDs begin at 1, and the last ID wraps around to part
// 0.
func nodePart(option string, all netip.Prefix, length int, nodeID uint32) (netip.Prefix, error) {
	parts := length - all.Bits()
	part := uint64(nodeID)
	if parts < 32 && part == 1<<parts {
		part = 0
	} else if parts < 32 && part > 1<<parts {
		return netip.Prefix{}, fmt.Errorf("node ID %d is out of range: %s %v has room for %d nodes of prefix length %d: enlarge it in the configuration of the whole cluster",
			nodeID, option, all, uint64(1)<<parts, length)
	}
	return cidr.Subnet(all, length, part)
}

// PodSubnet returns a node's part of the pod subnet.
func (p *Plan) PodSubnet(nodeID uint32) (netip.Prefix, error) {
	return nodePart("podSubnetCIDR", p.Subnets.Pods, p.Subnets.PodsOneNodeLen, nodeID)
}

// VPPHostSubnet returns a node's part of the subnet between vswitch and host.
func (p *Plan) VPPHostSubnet(nodeID uint32) (netip.Prefix, error) {
	return nodePart("vppHostSubnetCIDR", p.Subnets.VPPHost, p.Subnets.VPPHostOneNodeLen, nodeID)
}

// HostInterconnect returns both ends of the connection between vswitch and host.
func (p *Plan) HostInterconnect(nodeID uint32) (inVPP, inLinux netip.Prefix, err error) {
	subnet, err := p.VPPHostSubnet(nodeID)
	if err != nil {
		return inVPP, inLinux, err
	}
	base := subnet.Addr()
	return netip.PrefixFrom(cidr.Add(base, hostInVPPNumber), subnet.Bits()),
		netip.PrefixFrom(cidr.Add(base, hostInLinuxNumber), subnet.Bits()), nil
}

// HostClients returns the source address that the vswitch sees on connections redirected by the
// host. It differs from the host's addresses, which policies always allow. It is the zero Addr if
// the subnet is too small.
func (p *Plan) HostClients(nodeID uint32) (netip.Addr, error) {
	subnet, err := p.VPPHostSubnet(nodeID)
	if err != nil {
		return netip.Addr{}, err
	}
	clients := cidr.Add(subnet.Addr(), hostClientsNumber)
	if !subnet.Contains(clients) || clients == cidr.Last(subnet) { // the last IPv4 address is broadcast
		return netip.Addr{}, nil
	}
	return clients, nil
}

// Gateway returns the pods' gateway in a node's pod subnet, with the prefix length.
func Gateway(podSubnet netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(cidr.Add(podSubnet.Addr(), podGatewayNumber), podSubnet.Bits())
}

// NATLoopback returns the last unicast address of a node's pod subnet. No pod gets it.
func NATLoopback(podSubnet netip.Prefix) netip.Addr { return cidr.Last(podSubnet).Prev() }

// NodeIP returns the address of a node in nodeInterconnectCIDR: the ID is the host number, and each
// excluded address at or below it adds one.
func (p *Plan) NodeIP(nodeID uint32) (netip.Prefix, error) {
	network := p.Subnets.NodeInterconnect
	if !network.IsValid() {
		return netip.Prefix{}, fmt.Errorf("address of node %d cannot be computed: set ipamConfig.nodeInterconnectCIDR, or the address in nodeConfig.mainVPPInterface.ip", nodeID)
	}
	addr, err := numbered("nodeInterconnectCIDR", network, nodeID)
	if err != nil {
		return netip.Prefix{}, err
	}
	excluded := slices.Clone(p.ExcludedNodeIPs)
	slices.SortFunc(excluded, netip.Addr.Compare)
	for _, e := range excluded {
		if network.Contains(e) && !addr.Less(e) {
			addr = addr.Next()
		}
	}
	if !usable(network, addr) {
		return netip.Prefix{}, noFreeAddress("nodeInterconnectCIDR", network, nodeID)
	}
	return netip.PrefixFrom(addr, network.Bits()), nil
}

// VXLANIP returns the address of a node inside the overlay.
func (p *Plan) VXLANIP(nodeID uint32) (netip.Prefix, error) {
	addr, err := numbered("vxlanCIDR", p.Subnets.VXLAN, nodeID)
	return netip.PrefixFrom(addr, p.Subnets.VXLAN.Bits()), err
}

func numbered(option string, network netip.Prefix, nodeID uint32) (netip.Addr, error) {
	hostBits := cidr.HostBits(network)
	if hostBits < 32 && uint64(nodeID) > 1<<hostBits {
		return netip.Addr{}, fmt.Errorf("node ID %d is out of the valid range: %s %v has %d addresses: enlarge it in the configuration of the whole cluster",
			nodeID, option, network, uint64(1)<<hostBits)
	}
	if hostBits < 32 && uint64(nodeID) == 1<<hostBits {
		return netip.Addr{}, noFreeAddress(option, network, nodeID)
	}
	addr, err := cidr.Host(network, uint64(nodeID))
	if err == nil && !usable(network, addr) {
		err = noFreeAddress(option, network, nodeID)
	}
	return addr, err
}

func usable(network netip.Prefix, addr netip.Addr) bool {
	broadcast := addr.Is4() && network.Bits() < 31 && addr == cidr.Last(network)
	return network.Contains(addr) && addr != network.Masked().Addr() && !broadcast
}

func noFreeAddress(option string, network netip.Prefix, nodeID uint32) error {
	return fmt.Errorf("no free address for node ID %d in %s %v: enlarge it in the configuration of the whole cluster", nodeID, option, network)
}
