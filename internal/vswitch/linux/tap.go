package linux

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// unmovedGroup is the device group (IFLA_GROUP) of TAP ends created in the namespace of their
// interface. They stay there when the interface is deleted, because moving a device between
// namespaces takes the kernel tens of milliseconds.
const unmovedGroup = 121

// findTap returns the TAP end that waits for the interface, in its namespace or in the agent's.
func (p *Plugin) findTap(ns *namespaces.Namespace, links []netlink.Link, v *linuxInterface) (waiting, error) {
	own, tap := p.namespaces.Own, v.GetTap().GetVppTapIfName()
	name := models.TapHostIfName(tap)
	if ns != own {
		link, err := p.findTapIn(ns, links, tap)
		if link != nil || err != nil {
			return waiting{ns: ns, link: link, unmoved: true, discard: func() {}}, err
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

// findTapIn returns the TAP end among the devices of a namespace other than the agent's, or
// nil. An end made by the kernel vswitch is recognised by its peer, an end of another vswitch by
// its name.
func (p *Plugin) findTapIn(ns *namespaces.Namespace, links []netlink.Link, tap string) (netlink.Link, error) {
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

// peerOfAlias returns the peer of the veth with the alias, if it is in the same namespace.
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

// returnTap returns the TAP end to the place where it waited.
func (p *Plugin) returnTap(at *location, v *linuxInterface) error {
	own, name := p.namespaces.Own, models.TapHostIfName(v.GetTap().GetVppTapIfName())
	c := rtnl.LinkChange{Name: name, ClearAlias: true, Down: true}
	if at.ns == own {
		return reshape(own, at.link, c)
	}
	if at.link.Attrs().Group == unmovedGroup {
		c.Group = new(uint32)
		err := reshape(at.ns, at.link, c)
		if errors.Is(err, unix.EEXIST) { // it is still recognised by its peer
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
