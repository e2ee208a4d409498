package vpptest

import (
	"net/netip"

	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/sr_types"
)

// AddHost makes a host behind an interface answer when VPP resolves its IP address. VPP resolves
// once per adjacency, when it creates it, so an existing adjacency does not learn of the host.
func (s *Server) AddHost(on uint32, ip netip.Addr, mac ethernet_types.MacAddress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[neighbourID{index(on), ip}] = mac
}

// adjacency is a neighbour as the next hop for packets of one IP version.
type adjacency struct {
	neighbourID
	ipv6 bool
}

// adjacencies returns the adjacencies to hosts that answer.
func (c *call) adjacencies() map[adjacency]bool {
	all := map[adjacency]bool{}
	put := func(a adjacency) {
		if c.server.hosts[a.neighbourID] != (ethernet_types.MacAddress{}) {
			all[a] = true
		}
	}
	for _, d := range c.sr.sids {
		on := index(d.XconnectIfaceOrVrfTable)
		switch d.Behavior {
		case sr_types.SR_BEHAVIOR_API_DX4:
			put(adjacency{neighbourID{on, addr(d.XconnectNhAddr)}, false})
		case sr_types.SR_BEHAVIOR_API_X, sr_types.SR_BEHAVIOR_API_DX6:
			put(adjacency{neighbourID{on, addr(d.XconnectNhAddr)}, true})
		}
	}
	for id, t := range c.tables {
		for _, sources := range t.entries {
			for _, paths := range sources {
				for _, p := range paths {
					put(adjacency{neighbourID{index(p.SwIfIndex), nextHopOf(p)}, id.ipv6})
				}
			}
		}
	}
	return all
}

func nextHopOf(p fib_types.FibPath) netip.Addr {
	if p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 {
		return netip.AddrFrom16(p.Nh.Address.GetIP6())
	}
	return netip.AddrFrom4(p.Nh.Address.GetIP4())
}

// adjacent makes a change and resolves the neighbours of new adjacencies.
func (c *call) adjacent(change func()) {
	if len(c.server.hosts) == 0 {
		change()
		return
	}
	before := c.adjacencies()
	change()
	for a := range c.adjacencies() {
		if _, known := c.neighbours[a.neighbourID]; before[a] || known || !c.canAsk(a.neighbourID) {
			continue
		}
		n := ip_neighbor.IPNeighbor{SwIfIndex: a.on, MacAddress: c.server.hosts[a.neighbourID], IPAddress: apiPrefix(netip.PrefixFrom(a.ip, 0)).Address}
		c.neighbours[a.neighbourID] = n
		c.notify(&ip_neighbor.IPNeighborEventV2{Flags: ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_ADDED, Neighbor: n})
	}
}

// canAsk reports whether an interface is up and has an address of the version.
func (c *call) canAsk(n neighbourID) bool {
	i := c.ifs.iface(n.on)
	if i == nil || i.Flags&adminUp == 0 {
		return false
	}
	for _, a := range i.addrs {
		if a.Addr().Is6() == n.ip.Is6() {
			return true
		}
	}
	return false
}

func handleAdjacencies() {
	// Learned neighbours are removed when an interface is set down.
	interfaceDown = append(interfaceDown, func(c *call, i index) {
		for id, n := range c.neighbours {
			if id.on == i && n.Flags&staticNeighbour == 0 {
				c.forgetNeighbour(id)
			}
		}
	})
}
