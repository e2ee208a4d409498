package ipnet

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// addNoOverlayRoutes routes to another node without encapsulation: both nodes
// are on one link, or what is between them knows the pod subnets.
func (n *IPNet) addNoOverlayRoutes(config values, node *thisNode, r *remote) {
	for _, f := range r.families {
		for _, network := range f.destinations {
			if network == single(f.ip) {
				continue // it is reached by itself
			}
			config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: network.String(), NextHopAddr: f.ip.String()})
		}
	}
}
