package linux

import (
	"fmt"

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

// links returns the devices of the namespace.
func (ns *netNS) links() ([]netlink.Link, error) {
	links, err := ns.Links()
	return links, ns.listError("devices", err)
}

// linkByName returns the device with the name, ErrNoDevice if there is none.
func (ns *netNS) linkByName(name string) (netlink.Link, error) {
	link, err := ns.LinkByName(name)
	return link, ns.linkError(err, name)
}

// linkByIndex returns the device with the index, ErrNoDevice if there is none.
func (ns *netNS) linkByIndex(index int) (netlink.Link, error) {
	link, err := ns.LinkByIndex(index)
	return link, ns.linkError(err, fmt.Sprintf("#%d", index))
}

func (ns *netNS) linkError(err error, device string) error {
	switch {
	case err == nil:
		return nil
	case rtnl.IsGone(err):
		return fmt.Errorf("device %s of %s: %w", device, ns.name, ErrNoDevice)
	default:
		return fmt.Errorf("look up device %s of %s: %w", device, ns.name, err)
	}
}

// addresses returns the addresses of all devices of the namespace.
func (ns *netNS) addresses() ([]rtnl.Address, error) {
	addresses, err := ns.Addresses(0)
	return addresses, ns.listError("addresses", err)
}

// routes returns the routes of the main table that are ours.
func (ns *netNS) routes() ([]netlink.Route, error) {
	routes, err := ns.Routes(netlink.FAMILY_ALL, &netlink.Route{Protocol: ownProtocol}, netlink.RT_FILTER_PROTOCOL)
	return routes, ns.listError("routes", err)
}

// neighbours returns the permanent neighbours that the vswitch did not make.
func (ns *netNS) neighbours() (permanent []rtnl.Neighbour, err error) {
	neighbours, err := ns.Neighbours()
	for _, n := range neighbours {
		if n.State&netlink.NUD_PERMANENT != 0 && n.Proto != vswitchProtocol {
			permanent = append(permanent, n)
		}
	}
	return permanent, ns.listError("neighbours", err)
}

func (ns *netNS) listError(what string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s of %s: %w", what, ns.name, err)
	}
	return nil
}
