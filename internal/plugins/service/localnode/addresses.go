package localnode

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
)

// self returns nil before the node has an ID.
func (n *Node) self() *nodesync.Node { return n.Nodes.GetAllNodes()[n.Name] }

// PodSubnets returns the pod subnets of the node, or none before it has an ID.
func (n *Node) PodSubnets() []netip.Prefix {
	self := n.self()
	if self == nil {
		return nil
	}
	return n.Addresses.PodSubnets(self)
}

// Loopback returns the source address of hairpin connections.
func (n *Node) Loopback(ipv6 bool) netip.Addr {
	for _, p := range n.PodSubnets() {
		if p.Addr().Is6() == ipv6 {
			return ipam.NATLoopback(p)
		}
	}
	return netip.Addr{}
}

// HostAddress returns the host's address on the interconnect.
func (n *Node) HostAddress(ipv6 bool) netip.Addr {
	self := n.self()
	if self == nil {
		return netip.Addr{}
	}
	plan := n.Addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VPPHost.IsValid() {
			continue
		}
		if _, host, err := family.HostInterconnect(self.ID); err == nil && host.Addr().Is6() == ipv6 {
			return host.Addr()
		}
	}
	return netip.Addr{}
}

// AllAddresses returns the addresses of the node, sorted.
func (n *Node) AllAddresses() (list []netip.Addr) {
	if self := n.self(); self != nil {
		list = append(slices.Clone(self.MgmtIPs), vswitchAddresses(self)...)
	}
	return sorted(list)
}

// OpenAddresses returns the node's addresses on which the vswitch opens ports, sorted.
func (n *Node) OpenAddresses() (list []netip.Addr) {
	if !n.HasOwnStack() {
		return n.AllAddresses()
	}
	if self := n.self(); self != nil {
		list = vswitchAddresses(self)
	}
	return sorted(list)
}

// VSwitchAddresses returns the node's addresses that the vswitch owns, sorted.
func (n *Node) VSwitchAddresses() []netip.Addr {
	list := n.OpenAddresses()
	for _, ipv6 := range []bool{false, true} {
		if p := n.Network.GetNodeIPOf(ipv6); p.IsValid() {
			list = append(list, p.Addr())
		}
	}
	return sorted(list)
}

// HostAddresses returns the node's addresses that the vswitch lacks or shares with the host.
// Packets of the host's processes to them do not reach the vswitch.
func (n *Node) HostAddresses() []netip.Addr {
	if n.SharesCard() {
		return n.AllAddresses()
	}
	open := n.OpenAddresses()
	return slices.DeleteFunc(n.AllAddresses(), func(a netip.Addr) bool { return slices.Contains(open, a) })
}

// ListeningAddresses returns the addresses at which the host listens for clients of node ports.
func (n *Node) ListeningAddresses() []netip.Addr {
	if n.HasOwnStack() {
		return n.Settings.OpenOn(n.HostAddresses())
	}
	return n.Settings.OpenOn(n.AllAddresses())
}

func vswitchAddresses(node *nodesync.Node) (list []netip.Addr) {
	for _, p := range node.VPPIPs {
		list = append(list, p.Addr())
	}
	return list
}

// AddressesOf returns all addresses of a node and of its machine.
func AddressesOf(node *nodesync.Node) []netip.Addr {
	return slices.Concat(node.MgmtIPs, vswitchAddresses(node), node.Host.Addresses)
}

// OfVersion returns the addresses of an IP version.
func OfVersion(addresses []netip.Addr, ipv6 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return a.Is6() != ipv6 })
}

func sorted(list []netip.Addr) []netip.Addr {
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}
