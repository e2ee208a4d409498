package ipnet

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
)

// NodeAddresses returns all addresses of a node with an ID, sorted: from Kubernetes, of the
// vswitch, of its machine, the pod gateways, the overlay, and both ends of the interconnect. It excludes
// addresses that stand for external clients, and what a node publishes as its machine's in the networks
// of pods and services.
func (n *IPNet) NodeAddresses(node *nodesync.Node) []netip.Addr {
	list := slices.Clone(node.MgmtIPs)
	for _, p := range node.VPPIPs {
		list = append(list, p.Addr())
	}
	add := func(p netip.Prefix, err error) {
		if err == nil && p.IsValid() { // a node outside the address plan has none
			list = append(list, p.Addr())
		}
	}
	plan := n.ipam.Plan()
	taken := func(addr netip.Addr) bool {
		return slices.ContainsFunc(plan.Families(), func(f ipam.Plan) bool {
			return f.Subnets.Pods.Contains(addr) || f.Subnets.IsClusterIP(addr)
		})
	}
	for _, addr := range node.Host.Addresses {
		if !taken(addr) {
			list = append(list, addr)
		}
	}
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
