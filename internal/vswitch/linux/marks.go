package linux

import (
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/vishvananda/netlink"
)

// ownProtocol marks our routes (RTA_PROTOCOL) and addresses (IFA_PROTO). The kernel vswitch uses
// other numbers. Both work in the same namespaces and, with AF_PACKET, on the same devices, and
// each removes unrequested objects with its own mark.
const ownProtocol = 126

// Marks of the kernel vswitch.
const (
	// vswitchProtocol marks addresses, routes and neighbours.
	vswitchProtocol = 121
	// leasedProtocol marks addresses obtained by DHCP.
	leasedProtocol = 123
)

func ownRoutes(ns *namespaces.Namespace) ([]netlink.Route, error) {
	routes, err := ns.Routes(netlink.FAMILY_ALL, &netlink.Route{Protocol: ownProtocol}, netlink.RT_FILTER_PROTOCOL)
	return routes, ns.ListError("routes", err)
}

// permanentNeighbours returns the permanent neighbours not made by the vswitch.
func permanentNeighbours(ns *namespaces.Namespace) (permanent []rtnl.Neighbour, err error) {
	neighbours, err := ns.Neighbours()
	for _, n := range neighbours {
		if n.State&netlink.NUD_PERMANENT != 0 && n.Proto != vswitchProtocol {
			permanent = append(permanent, n)
		}
	}
	return permanent, ns.ListError("neighbours", err)
}
