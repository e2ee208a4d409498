package ipnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
)

// thisNode is the result of a resync for this node. It is immutable.
type thisNode struct {
	id uint32
	// ips are this node's addresses for other nodes, the preferred one first. It may be empty.
	ips           []netip.Prefix
	assigned      []netip.Prefix
	mainInterface string
	useDHCP       bool
	// gateways of default routes to add.
	gateways []netip.Addr

	// families holds the pods' IP versions, the primary one first.
	families []family
	podMTU   uint32

	mainVRF, podVRF uint32

	stolen *contivconf.Stolen
}

type family struct {
	plan       ipam.Plan
	podSubnet  netip.Prefix
	podGateway netip.Prefix
	vxlanIP    netip.Prefix
}

func (f *family) isIPv6() bool { return f.podSubnet.Addr().Is6() }

// hasIPv4 reports whether pods have IPv4 addresses. DHCP only serves IPv4.
func (node *thisNode) hasIPv4() bool {
	return slices.ContainsFunc(node.families, func(f family) bool { return !f.isIPv6() })
}

func (node *thisNode) ip() netip.Prefix {
	if len(node.ips) == 0 {
		return netip.Prefix{}
	}
	return node.ips[0]
}

func (node *thisNode) ipOf(ipv6 bool) netip.Prefix { return ofVersion(node.ips, ipv6) }

func ofVersion(addresses []netip.Prefix, ipv6 bool) netip.Prefix {
	for _, p := range addresses {
		if p.Addr().Is6() == ipv6 {
			return p
		}
	}
	return netip.Prefix{}
}

func (node *thisNode) podGateways() []netip.Prefix {
	var gateways []netip.Prefix
	for _, f := range node.families {
		gateways = append(gateways, f.podGateway)
	}
	return gateways
}

func (node *thisNode) vxlanIPs() []netip.Prefix {
	var ips []netip.Prefix
	for _, f := range node.families {
		ips = append(ips, f.vxlanIP)
	}
	return ips
}

// resolve computes this node's addresses. Errors that a restart would not fix are not fatal.
func (n *IPNet) resolve(ctx context.Context) (*thisNode, error) {
	plan, routing := n.ipam.Plan(), n.config.Routing()
	node := &thisNode{id: n.nodes.GetNodeID(), mainVRF: routing.MainVRFID, podVRF: routing.PodVRFID}
	if !n.caps.MultipleVRFs {
		node.mainVRF, node.podVRF = 0, 0
	}
	own := n.nodes.GetAllNodes()[n.config.NodeName()]
	if own == nil {
		own = &nodesync.Node{ID: node.id, Name: n.config.NodeName()}
	}
	for _, plan := range plan.Families() {
		f := family{plan: plan}
		var err error
		if f.podSubnet, err = n.ipam.PodSubnet(&plan, own); err != nil {
			return nil, err
		}
		f.podGateway = ipam.Gateway(f.podSubnet)
		if n.GetVxlanBVIIfName() != "" {
			if f.vxlanIP, err = plan.VXLANIP(node.id); err != nil {
				return nil, err
			}
		}
		node.families = append(node.families, f)
	}
	if err := n.resolveNodeIPs(ctx, node); err != nil {
		return nil, err
	}
	node.podMTU = n.podMTU(node)
	return node, nil
}

// podMTU leaves room for IPv6 transport if any node may be reached over IPv6.
func (n *IPNet) podMTU(node *thisNode) uint32 {
	mtu := n.config.PodMTU(node.ip().Addr())
	for _, ip := range node.ips {
		mtu = min(mtu, n.config.PodMTU(ip.Addr()))
	}
	return mtu
}

// resolveNodeIPs uses configured addresses, then those computed from the node interconnect, then
// those of the main link. In a dual-stack cluster, each IP version is resolved separately and may
// be missing.
func (n *IPNet) resolveNodeIPs(ctx context.Context, node *thisNode) error {
	resolved := n.config.Resolved()
	node.mainInterface, node.useDHCP, node.gateways = resolved.Main.Name, resolved.Main.UseDHCP, resolved.RouteGateways
	node.stolen = resolved.Stolen
	dualStack := len(node.families) > 1
	missing := func(p netip.Prefix) bool {
		return p.IsValid() && (len(node.ips) == 0 || dualStack && !node.ipOf(p.Addr().Is6()).IsValid())
	}
	node.ips, node.assigned = slices.Clone(resolved.Main.Addresses), slices.Clone(resolved.Main.Addresses)
	for _, f := range node.families {
		if resolved.Main.UseDHCP || !missing(f.plan.Subnets.NodeInterconnect) {
			continue
		}
		ip, err := f.plan.NodeIP(node.id)
		if err != nil {
			return err
		}
		node.ips, node.assigned = append(node.ips, ip), append(node.assigned, ip)
	}
	for _, ip := range []netip.Prefix{resolved.LinkAddress, resolved.SecondLinkAddress} {
		if missing(ip) {
			node.ips = append(node.ips, ip)
		}
	}
	switch {
	case len(node.ips) > 0:
	case resolved.Main.UseDHCP && node.hasIPv4():
		controller.Logger(ctx, n.log).Warn("Waiting for DHCP to assign the address of this node before connecting other nodes")
		return nil
	case resolved.Main.Name == "":
		return errors.New("this node has no main interface, and no IP address: set the interface in nodeConfig.mainVPPInterface.interfaceName, and nodeConfig.mainVPPInterface.ip or ipamConfig.nodeInterconnectCIDR")
	default:
		return fmt.Errorf("main interface %s has no IP address: assign one to it, or set nodeConfig.mainVPPInterface.ip or ipamConfig.nodeInterconnectCIDR", resolved.Main.Name)
	}
	if node.mainInterface == "" {
		node.mainInterface, node.assigned = loopbackNICName, node.ips
	}
	if dualStack {
		first := node.families[0].isIPv6()
		slices.SortStableFunc(node.ips, func(a, b netip.Prefix) int { return rank(a, first) - rank(b, first) })
	}
	return nil
}

func rank(p netip.Prefix, ipv6First bool) int {
	if p.Addr().Is6() == ipv6First {
		return 0
	}
	return 1
}
