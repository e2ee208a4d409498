package linux

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// homeGroup is the device group (IFLA_GROUP) of ends of TAPs that were made in
// the namespace of their interface: they stay there when the interface is
// deleted. Moving a device between namespaces takes the kernel tens of
// milliseconds.
const homeGroup = 121

// findTap returns the end of a TAP that waits for the interface: in its namespace,
// or in the agent's.
func (p *Plugin) findTap(ns *namespaces.Namespace, links []netlink.Link, v *linuxInterface) (waiting, error) {
	own, tap := p.namespaces.Own, v.GetTap().GetVppTapIfName()
	name := models.TapHostIfName(tap)
	if ns != own {
		link, err := p.findTapAtHome(ns, links, tap)
		if link != nil || err != nil {
			return waiting{ns: ns, link: link, home: true, discard: func() {}}, err
		}
	}
	link, err := own.LinkByName(name)
	if errors.Is(err, rtnl.ErrNoDevice) {
		link, err = peerOfAlias(own, vppAliasPrefix+tap)
	}
	if err != nil {
		return waiting{}, fmt.Errorf("the end of TAP %s that should wait as %s there (tap.host_namespace) or in %s: %w", tap, name, own.Name, err)
	}
	return waiting{ns: own, link: link, discard: func() {}}, nil
}

// findTapAtHome returns the end of a TAP among the devices of a namespace other
// than the agent's, nil if it is not there. The kernel vswitch's is known by its
// peer; that of a vswitch with devices of its own, by its name.
func (p *Plugin) findTapAtHome(ns *namespaces.Namespace, links []netlink.Link, tap string) (netlink.Link, error) {
	own := p.namespaces.Own
	for _, link := range links {
		attrs := link.Attrs()
		_, isVeth := link.(*netlink.Veth)
		switch {
		case attrs.Alias != "":
			continue
		case !isVeth && attrs.Name == models.TapHostIfName(tap):
			return link, nil
		case !isVeth || attrs.NetNsID < 0:
			continue
		}
		near, err := own.LinkByIndex(attrs.ParentIndex)
		if errors.Is(err, rtnl.ErrNoDevice) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if near.Attrs().Alias != vppAliasPrefix+tap || near.Attrs().ParentIndex != attrs.Index {
			continue
		}
		if nsid, err := p.namespaces.Number(ns); err != nil || nsid < 0 || nsid != near.Attrs().NetNsID {
			continue
		}
		return link, nil
	}
	return nil, nil
}

// peerOfAlias returns the other end of the veth with the alias, if it is in the
// same namespace.
func peerOfAlias(ns *namespaces.Namespace, alias string) (netlink.Link, error) {
	links, err := ns.Links()
	if err != nil {
		return nil, err
	}
	if near := findByAlias(links, alias); near != nil && near.Attrs().NetNsID < 0 {
		if far := findByIndex(links, near.Attrs().ParentIndex); far != nil {
			return far, nil
		}
	}
	return nil, fmt.Errorf("peer of %s in %s: %w", alias, ns.Name, rtnl.ErrNoDevice)
}

// giveBack lets the end of a TAP wait again, where it did before.
func (p *Plugin) giveBack(at *location, v *linuxInterface) error {
	own, name := p.namespaces.Own, models.TapHostIfName(v.GetTap().GetVppTapIfName())
	c := rtnl.LinkChange{Name: name, ClearAlias: true, Down: true}
	if at.ns == own {
		return reshape(own, at.link, c)
	}
	if at.link.Attrs().Group == homeGroup {
		c.Group = new(uint32)
		err := reshape(at.ns, at.link, c)
		if errors.Is(err, unix.EEXIST) { // it will be known by its peer
			c.Name = ""
			err = reshape(at.ns, at.link, c)
		}
		return err
	}
	if _, err := own.LinkByName(name); err == nil {
		return fmt.Errorf("return %s to %s: %w: another device is called %s there, remove it", at.link.Attrs().Name, own.Name, ErrNameTaken, name)
	}
	c.NetNS = own.Handle()
	return at.ns.SetLink(at.index, c)
}
