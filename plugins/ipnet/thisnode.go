package ipnet

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/controller"
)

// thisNode is what a resync finds out about this node. Immutable.
type thisNode struct {
	id uint32
	// ip is the first of ips, the addresses at which other nodes reach this one;
	// the zero Prefix while there is none.
	ip  netip.Prefix
	ips []netip.Prefix
	// assign tells that the vswitch is to have the addresses assigned; else it
	// has them already.
	assign bool
	// mainInterface is the logical name of the interface with the addresses.
	mainInterface string
	useDHCP       bool
	gateway       netip.Addr

	podSubnet  netip.Prefix
	podGateway netip.Prefix
	vxlanIP    netip.Prefix
	podMTU     uint32

	mainVRF, podVRF uint32
}

// resolve computes what the resync is about. Errors that a restart cannot mend
// any better than a resync are not fatal.
func (n *IPNet) resolve(ctx context.Context) (*thisNode, error) {
	plan, routing := n.ipam.Plan(), n.config.Routing()
	node := &thisNode{id: n.nodes.GetNodeID(), mainVRF: routing.MainVRFID, podVRF: routing.PodVRFID}
	if !n.caps.MultipleVRFs {
		node.mainVRF, node.podVRF = 0, 0
	}
	var err error
	if node.podSubnet, err = plan.PodSubnet(node.id); err != nil {
		return nil, controller.NewFatalError(err)
	}
	if node.podGateway, err = plan.PodGateway(node.id); err != nil {
		return nil, controller.NewFatalError(err)
	}
	if n.GetVxlanBVIIfName() != "" {
		if node.vxlanIP, err = plan.VXLANIP(node.id); err != nil {
			return nil, controller.NewFatalError(err)
		}
	}
	if err := n.resolveNodeIP(ctx, node); err != nil {
		return nil, err
	}
	node.podMTU = n.config.PodMTU(node.ip.Addr())
	return node, nil
}

// resolveNodeIP takes the configured address, else one computed from the node
// interconnect, else the one that the main link already has.
func (n *IPNet) resolveNodeIP(ctx context.Context, node *thisNode) error {
	resolved, plan := n.config.Resolved(), n.ipam.Plan()
	node.mainInterface, node.useDHCP, node.gateway = resolved.Main.Name, resolved.Main.UseDHCP, resolved.Gateway
	switch {
	case len(resolved.Main.Addresses) > 0:
		node.ips, node.assign = resolved.Main.Addresses, true
	case !resolved.Main.UseDHCP && plan.Subnets.NodeInterconnect.IsValid():
		ip, err := plan.NodeIP(node.id)
		if err != nil {
			return controller.NewFatalError(err)
		}
		node.ips, node.assign = []netip.Prefix{ip}, true
	case resolved.LinkAddress.IsValid():
		node.ips = []netip.Prefix{resolved.LinkAddress}
	case !n.caps.HostStackShared && resolved.Main.UseDHCP:
		controller.Logger(ctx, n.log).Warn("Address of this node is not known before DHCP assigns it: other nodes are not connected yet")
		return nil
	default:
		return fmt.Errorf("main interface %s has no IP address: assign one to it, or set nodeConfig.mainVPPInterface.ip or ipamConfig.nodeInterconnectCIDR", resolved.Main.Name)
	}
	if node.mainInterface == "" {
		node.mainInterface, node.assign = loopbackNICName, true
	}
	node.ip = node.ips[0]
	return nil
}
