package vpptest

import (
	"net/netip"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

type neighbourID struct {
	on index
	ip netip.Addr
}

const staticNeighbour = ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC

func handleNeighbours() {
	on(func(c *call, req *ip_neighbor.IPNeighborAddDel, _ *ip_neighbor.IPNeighborAddDelReply) api.VPPApiError {
		if c.ifs.iface(req.Neighbor.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		id := neighbourID{req.Neighbor.SwIfIndex, addr(req.Neighbor.IPAddress)}
		have, exists := c.neighbours[id]
		switch {
		case !req.IsAdd && !exists:
			return api.NO_SUCH_ENTRY
		case !req.IsAdd:
			c.forgetNeighbour(id)
			return 0
		case exists && have.Flags&staticNeighbour != 0 && req.Neighbor.Flags&staticNeighbour == 0:
			if have.MacAddress == req.Neighbor.MacAddress {
				return 0
			}
			return -2
		}
		c.neighbours[id] = req.Neighbor
		c.notify(&ip_neighbor.IPNeighborEventV2{Flags: ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_ADDED, Neighbor: req.Neighbor})
		return 0
	})
	on(func(c *call, req *ip_neighbor.WantIPNeighborEventsV2, _ *ip_neighbor.WantIPNeighborEventsV2Reply) api.VPPApiError {
		c.want(&ip_neighbor.IPNeighborEventV2{}, req.Enable)
		return 0
	})
	register(&ip_neighbor.IPNeighborEventV2{})
	onDump(func(c *call, req *ip_neighbor.IPNeighborDump, send func(*ip_neighbor.IPNeighborDetails)) {
		for id, n := range c.neighbours {
			if id.ip.Is6() == (req.Af == ip_types.ADDRESS_IP6) && (req.SwIfIndex == noIndex || req.SwIfIndex == id.on) {
				send(&ip_neighbor.IPNeighborDetails{Neighbor: n})
			}
		}
	})
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		for id := range c.neighbours {
			if id.on == i {
				c.forgetNeighbour(id)
			}
		}
	})
}

func (c *call) forgetNeighbour(id neighbourID) {
	event := &ip_neighbor.IPNeighborEventV2{Flags: ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_REMOVED, Neighbor: c.neighbours[id]}
	delete(c.neighbours, id)
	c.notify(event)
}
