package ipnet

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// addNoOverlayRoutes adds unencapsulated routes to another node. Both nodes share a link, or the
// routers between them know the pod subnets.
func (n *IPNet) addNoOverlayRoutes(config values, node *thisNode, r *remote) {
	for _, f := range r.families {
		for _, network := range f.destinations {
			if network == single(f.ip) {
				continue
			}
			config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: network.String(), NextHopAddr: f.ip.String()})
		}
	}
}
