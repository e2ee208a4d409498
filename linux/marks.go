package linux

import (
	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/vishvananda/netlink"
)

// ownProtocol marks our routes (RTA_PROTOCOL) and addresses (IFA_PROTO). The kernel
// vswitch has other numbers: the two share namespaces and, by AF_PACKET, devices, and
// each removes what has its mark and is not requested.
const ownProtocol = 126

// The kernel vswitch's marks.
const (
	// vswitchProtocol: addresses, routes and neighbours.
	vswitchProtocol = 121
	// leasedProtocol: addresses that its DHCP client obtained.
	leasedProtocol = 123
)

// ownRoutes returns the routes of the main table that are ours.
func ownRoutes(ns *namespaces.Namespace) ([]netlink.Route, error) {
	routes, err := ns.Routes(netlink.FAMILY_ALL, &netlink.Route{Protocol: ownProtocol}, netlink.RT_FILTER_PROTOCOL)
	return routes, ns.ListError("routes", err)
}

// permanentNeighbours returns the permanent neighbours that the vswitch did not make.
func permanentNeighbours(ns *namespaces.Namespace) (permanent []rtnl.Neighbour, err error) {
	neighbours, err := ns.Neighbours()
	for _, n := range neighbours {
		if n.State&netlink.NUD_PERMANENT != 0 && n.Proto != vswitchProtocol {
			permanent = append(permanent, n)
		}
	}
	return permanent, ns.ListError("neighbours", err)
}
