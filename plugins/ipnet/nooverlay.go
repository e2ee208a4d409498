package ipnet

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// addNoOverlayRoutes routes to another node without encapsulation: both nodes
// are on one link, or what is between them knows the pod subnets.
func (n *IPNet) addNoOverlayRoutes(config values, node *thisNode, r *remote) {
	for _, network := range r.destinations() {
		if network == netip.PrefixFrom(r.ip, r.ip.BitLen()) {
			continue // it is reached by itself
		}
		config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: network.String(), NextHopAddr: r.ip.String()})
	}
}
