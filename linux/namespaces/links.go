package namespaces

import (
	"fmt"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/vishvananda/netlink"
)

// Links returns the devices of the namespace.
func (ns *Namespace) Links() ([]netlink.Link, error) {
	links, err := ns.Conn.Links()
	return links, ns.ListError("devices", err)
}

// LinkByName returns the device with the name, rtnl.ErrNoDevice if there is none.
func (ns *Namespace) LinkByName(name string) (netlink.Link, error) {
	link, err := ns.Conn.LinkByName(name)
	return link, ns.linkError(err, name)
}

// LinkByIndex returns the device with the index, rtnl.ErrNoDevice if there is none.
func (ns *Namespace) LinkByIndex(index int) (netlink.Link, error) {
	link, err := ns.Conn.LinkByIndex(index)
	return link, ns.linkError(err, fmt.Sprintf("#%d", index))
}

func (ns *Namespace) linkError(err error, device string) error {
	switch {
	case err == nil:
		return nil
	case rtnl.IsGone(err):
		return fmt.Errorf("device %s of %s: %w", device, ns.Name, rtnl.ErrNoDevice)
	default:
		return fmt.Errorf("look up device %s of %s: %w", device, ns.Name, err)
	}
}

// AllAddresses returns the addresses of all devices of the namespace.
func (ns *Namespace) AllAddresses() ([]rtnl.Address, error) {
	addresses, err := ns.Addresses(0)
	return addresses, ns.ListError("addresses", err)
}

// ListError says which objects of the namespace could not be listed; nil if err is.
func (ns *Namespace) ListError(objects string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s of %s: %w", objects, ns.Name, err)
	}
	return nil
}
