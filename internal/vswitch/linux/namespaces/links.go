package namespaces

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
)

func (ns *Namespace) Links() ([]netlink.Link, error) {
	links, err := ns.Conn.Links()
	return links, ns.ListError("devices", err)
}

// LinkByName returns the device with the name, or rtnl.ErrNoDevice.
func (ns *Namespace) LinkByName(name string) (netlink.Link, error) {
	link, err := ns.Conn.LinkByName(name)
	return link, ns.linkError(err, name)
}

// LinkByIndex returns the device with the index, or rtnl.ErrNoDevice.
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

func (ns *Namespace) AllAddresses() ([]rtnl.Address, error) {
	addresses, err := ns.Addresses(0)
	return addresses, ns.ListError("addresses", err)
}

// ListError wraps err, if not nil, with the objects that could not be listed.
func (ns *Namespace) ListError(objects string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s of %s: %w", objects, ns.Name, err)
	}
	return nil
}
