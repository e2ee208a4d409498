package vpptest

import (
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

// defaultNeighbours is how many VPP remembers.
const defaultNeighbours = 50000

func handleAging() {
	on(func(c *call, req *ip_neighbor.IPNeighborConfig, _ *ip_neighbor.IPNeighborConfigReply) api.VPPApiError {
		if c.aging == nil {
			c.aging = map[ip_types.AddressFamily]ip_neighbor.IPNeighborConfig{}
		}
		c.aging[req.Af] = *req
		return 0
	})
	on(func(c *call, req *ip_neighbor.IPNeighborConfigGet, reply *ip_neighbor.IPNeighborConfigGetReply) api.VPPApiError {
		now, ok := c.aging[req.Af]
		if !ok {
			now.MaxNumber = defaultNeighbours
		}
		reply.Af, reply.MaxNumber, reply.MaxAge, reply.Recycle = req.Af, now.MaxNumber, now.MaxAge, now.Recycle
		return 0
	})
}
