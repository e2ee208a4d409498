package ipnet

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/nodesync"
)

// NodeAddresses returns the addresses of a node with an ID, sorted: those that Kubernetes knows, those of the vswitch, the gateways of
// its pods, its end of the overlay, and both ends of the connection between vswitch and host. Addresses that stand for clients
// outside are not among them.
func (n *IPNet) NodeAddresses(node *nodesync.Node) []netip.Addr {
	list := slices.Clone(node.MgmtIPs)
	for _, p := range node.VPPIPs {
		list = append(list, p.Addr())
	}
	add := func(p netip.Prefix, err error) {
		if err == nil && p.IsValid() { // a node that does not fit into a network has no address there
			list = append(list, p.Addr())
		}
	}
	plan := n.ipam.Plan()
	for _, f := range plan.Families() {
		if subnet, err := n.ipam.PodSubnet(&f, node); err == nil {
			add(ipam.Gateway(subnet), nil)
		}
		if n.GetVxlanBVIIfName() != "" {
			add(f.VXLANIP(node.ID))
		}
		if f.Subnets.VPPHost.IsValid() && (node.OwnStack == nil || *node.OwnStack) {
			inVPP, inLinux, err := f.HostInterconnect(node.ID)
			add(inVPP, err)
			add(inLinux, err)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}
