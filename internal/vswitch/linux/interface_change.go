package linux

import (
	"context"
	"errors"
	"fmt"
	"net"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// createInterface creates the device, or claims the one that the vswitch made, and moves it to its
// namespace.
func (p *Plugin) createInterface(_ context.Context, _ string, v *linuxInterface) (InterfaceMetadata, error) {
	ns, err := p.namespaces.AcquireOrMake(v.GetNamespace())
	if err != nil {
		return InterfaceMetadata{}, fmt.Errorf("create interface %s: %w", v.GetName(), err)
	}
	defer p.namespaces.Release(ns)
	index, err := p.createDevice(ns, v)
	if err != nil {
		err = errors.Join(err, p.removeUnneeded(v.GetNamespace()))
		return InterfaceMetadata{}, fmt.Errorf("create interface %s in %s: %w", v.GetName(), ns.Name, err)
	}
	if err := p.setMaster(ns, index, v); err != nil {
		return InterfaceMetadata{}, fmt.Errorf("create interface %s in %s: %w", v.GetName(), ns.Name, err)
	}
	p.remember(ns, v, index)
	return metadataOf(v, index), nil
}

func metadataOf(v *linuxInterface, index int) InterfaceMetadata {
	return InterfaceMetadata{
		Index: index, HostIfName: deviceName(v), Namespace: v.GetNamespace(), VPPTapName: v.GetTap().GetVppTapIfName(),
		VrfMasterIf: v.GetVrfMasterInterface(), VrfDevRT: v.GetVrfDev().GetRoutingTable(),
	}
}

// remember adds a configured interface to the inventory and makes Watch listen to its namespace.
func (p *Plugin) remember(ns *namespaces.Namespace, v *linuxInterface, index int) {
	p.inventory.put(v, deviceID{ns: ns.ID, index: index})
	p.listenTo(ns)
}

func (p *Plugin) listenTo(ns *namespaces.Namespace) {
	if err := p.namespaces.Track(ns); err != nil {
		p.log.Warn("watching a network namespace failed", "namespace", ns.Name, "err", err)
	}
}

// removeUnneeded removes a named namespace if we made it and it is empty.
func (p *Plugin) removeUnneeded(ref *linux_namespace.NetNamespace) error {
	return p.namespaces.RemoveUnneeded(ref, func(id namespaces.ID) bool {
		return len(p.inventory.devicesIn(id)) > 0 || len(p.chains.In(id)) > 0
	})
}

// createDevice returns the index of the device in its namespace.
func (p *Plugin) createDevice(ns *namespaces.Namespace, v *linuxInterface) (int, error) {
	switch v.GetType() {
	case linux_interfaces.Interface_TAP_TO_VPP:
		return p.claim(ns, v, p.findTap)
	case linux_interfaces.Interface_VETH:
		index, err := p.claim(ns, v, p.findVeth)
		if err == nil {
			err = setOffloading(ns, deviceName(v), v.GetVeth())
		}
		return index, err
	case linux_interfaces.Interface_DUMMY:
		return p.claim(ns, v, findVirtual("dummy", func(a netlink.LinkAttrs) netlink.Link {
			return &netlink.Dummy{LinkAttrs: a}
		}))
	case linux_interfaces.Interface_VRF_DEVICE:
		return p.claim(ns, v, findVirtual("VRF", func(a netlink.LinkAttrs) netlink.Link {
			return &netlink.Vrf{LinkAttrs: a, Table: v.GetVrfDev().GetRoutingTable()}
		}))
	case linux_interfaces.Interface_LOOPBACK:
		return createLoopback(ns, v)
	case linux_interfaces.Interface_EXISTING:
		return p.adoptExisting(ns, v)
	default:
		return 0, fmt.Errorf("type %v: %w", v.GetType(), kvscheduler.ErrUnsupported)
	}
}

// wanted returns the change that makes a device match its interface value.
func wanted(v *linuxInterface) rtnl.LinkChange {
	c := rtnl.LinkChange{
		Name: deviceName(v), Mtu: v.GetMtu(), Alias: aliasPrefix + v.GetName(), Up: v.GetEnabled(), Down: !v.GetEnabled(),
	}
	if setsMAC(v) {
		c.Mac, _ = net.ParseMAC(v.GetPhysAddress())
	}
	return c
}

// waiting is a device created for an interface and not yet claimed.
type waiting struct {
	ns   *namespaces.Namespace
	link netlink.Link
	// unmoved: the device stays in its namespace when the interface is deleted.
	unmoved bool
	// discard removes the device if it was just created.
	discard func()
}

// deviceFinder finds or creates the device of an interface in a namespace with the given devices.
type deviceFinder func(ns *namespaces.Namespace, links []netlink.Link, v *linuxInterface) (waiting, error)

// claim moves the device returned by find to the namespace and gives it its name and mark. It
// completes a device that already has the mark.
func (p *Plugin) claim(ns *namespaces.Namespace, v *linuxInterface, find deviceFinder) (int, error) {
	links, err := ns.Links()
	if err != nil {
		return 0, err
	}
	if mine := findByAlias(links, aliasPrefix+v.GetName()); mine != nil {
		return mine.Attrs().Index, reshape(ns, mine, wanted(v))
	}
	found, err := find(ns, links, v)
	if err != nil {
		return 0, err
	}
	if taken := findByName(links, deviceName(v)); taken != nil && (found.ns != ns || taken.Attrs().Index != found.link.Attrs().Index) {
		found.discard()
		return 0, fmt.Errorf("%w: %q belongs to a device that is not ours (%s #%d): remove or rename it, or set another host_if_name",
			ErrNameTaken, deviceName(v), taken.Type(), taken.Attrs().Index)
	}
	c := wanted(v)
	if found.unmoved {
		c.Group = new(uint32(unmovedGroup))
	}
	if found.ns == ns {
		index := found.link.Attrs().Index
		if err := reshape(ns, found.link, c); err != nil {
			found.discard()
			return 0, err
		}
		return index, nil
	}
	index, err := move(found.ns, found.link, ns, links, c)
	if err != nil {
		found.discard()
	}
	return index, err
}

// reshape changes a device in its namespace. Older kernels rename a device only while it is down.
func reshape(ns *namespaces.Namespace, link netlink.Link, c rtnl.LinkChange) error {
	attrs := link.Attrs()
	if c.Name == attrs.Name {
		c.Name = ""
	}
	if c.Mtu == uint32(attrs.MTU) {
		c.Mtu = 0
	}
	if c.Name != "" && isUp(link) {
		if err := ns.SetLink(attrs.Index, rtnl.LinkChange{Down: true}); err != nil {
			return fmt.Errorf("set %s down to rename it: %w", attrs.Name, err)
		}
	}
	if err := ns.SetLink(attrs.Index, c); err != nil {
		return fmt.Errorf("configure %s: %w", attrs.Name, err)
	}
	return nil
}

// move moves a device to another namespace, changes it there and returns its new index. before
// lists the devices that were there. If the change fails, it moves the device back.
func move(from *namespaces.Namespace, link netlink.Link, to *namespaces.Namespace, before []netlink.Link, c rtnl.LinkChange) (int, error) {
	name := link.Attrs().Name
	c.NetNS = to.Handle()
	if err := from.SetLink(link.Attrs().Index, c); err != nil {
		moveBack(from, name, to, before)
		return 0, fmt.Errorf("move %s from %s as %s: %w", name, from.Name, c.Name, err)
	}
	moved, err := to.LinkByName(c.Name)
	if err != nil {
		return 0, fmt.Errorf("find %s after it was moved from %s: %w", c.Name, from.Name, err)
	}
	return moved.Attrs().Index, nil
}

// moveBack undoes a move that failed after the device had changed namespaces.
func moveBack(from *namespaces.Namespace, name string, to *namespaces.Namespace, before []netlink.Link) {
	if _, err := from.LinkByName(name); err == nil {
		return // the device had not left
	}
	known := map[int]bool{}
	for _, l := range before {
		known[l.Attrs().Index] = true
	}
	after, _ := to.Links()
	for _, l := range after {
		if !known[l.Attrs().Index] {
			_ = to.SetLink(l.Attrs().Index, rtnl.LinkChange{NetNS: from.Handle(), Name: name, ClearAlias: true})
		}
	}
}

// findVeth returns the end of a veth pair for the interface. The first of the two interfaces
// creates the pair.
func (p *Plugin) findVeth(_ *namespaces.Namespace, _ []netlink.Link, v *linuxInterface) (waiting, error) {
	own, name := p.namespaces.Own, temporaryName(v.GetName())
	link, err := own.LinkByName(name)
	if err == nil {
		return waiting{ns: own, link: link, discard: func() {}}, nil
	}
	if !errors.Is(err, rtnl.ErrNoDevice) {
		return waiting{}, err
	}
	peer := temporaryName(v.GetVeth().GetPeerIfName())
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := own.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}); err != nil {
		return waiting{}, fmt.Errorf("make veth pair %s, %s: %w", name, peer, err)
	}
	if link, err = own.LinkByName(name); err != nil {
		return waiting{}, err
	}
	return waiting{ns: own, link: link, discard: func() { _ = own.DeleteLink(link.Attrs().Index) }}, nil
}

// findVirtual creates a device of a kind that the kernel may not support.
func findVirtual(kind string, device func(netlink.LinkAttrs) netlink.Link) deviceFinder {
	return func(ns *namespaces.Namespace, _ []netlink.Link, v *linuxInterface) (waiting, error) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = temporaryName(v.GetName())
		err := ns.LinkAdd(device(attrs))
		if rtnl.IsUnsupported(err) {
			return waiting{}, fmt.Errorf("this kernel has no %s devices: %w", kind, kvscheduler.ErrUnsupported)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return waiting{}, fmt.Errorf("make %s device: %w", kind, err)
		}
		link, err := ns.LinkByName(attrs.Name)
		return waiting{ns: ns, link: link, discard: func() { _ = ns.DeleteLink(link.Attrs().Index) }}, err
	}
}

// createLoopback marks the loopback device of the namespace and sets it up.
func createLoopback(ns *namespaces.Namespace, v *linuxInterface) (int, error) {
	link, err := ns.LinkByName(loopbackName)
	if err != nil {
		return 0, err
	}
	alias := aliasPrefix + v.GetName()
	if has := link.Attrs().Alias; has != "" && has != alias {
		return 0, fmt.Errorf("%w: its alias is %q; remove that interface, or the alias if it is stale", ErrLoopbackTaken, has)
	}
	c := rtnl.LinkChange{Alias: alias, Mtu: v.GetMtu(), Up: v.GetEnabled() && !isUp(link)}
	return link.Attrs().Index, reshape(ns, link, c)
}

// adoptExisting applies only the requested settings to a foreign device.
func (p *Plugin) adoptExisting(ns *namespaces.Namespace, v *linuxInterface) (int, error) {
	link, err := ns.LinkByName(deviceName(v))
	if err != nil {
		return 0, err
	}
	index := link.Attrs().Index
	if other, ok := p.inventory.nameOf(deviceID{ns: ns.ID, index: index}); ok && other != v.GetName() {
		return 0, fmt.Errorf("%w: device %s is interface %q: refer to it by that name", ErrNameTaken, deviceName(v), other)
	}
	c := rtnl.LinkChange{Up: v.GetEnabled() && !isUp(link)}
	if setsMAC(v) && !sameMAC(v.GetPhysAddress(), link.Attrs().HardwareAddr.String()) {
		c.Mac, _ = net.ParseMAC(v.GetPhysAddress())
	}
	if v.GetMtu() != uint32(link.Attrs().MTU) {
		c.Mtu = v.GetMtu()
	}
	if !c.Up && c.Mac == nil && c.Mtu == 0 {
		return index, nil
	}
	return index, reshape(ns, link, c)
}

// setMaster puts the device into its VRF.
func (p *Plugin) setMaster(ns *namespaces.Namespace, index int, v *linuxInterface) error {
	if v.GetVrfMasterInterface() == "" {
		return nil
	}
	_, master, ok := p.inventory.get(v.GetVrfMasterInterface())
	if !ok || master.ns != ns.ID {
		return fmt.Errorf("VRF device %s is not in the same network namespace", v.GetVrfMasterInterface())
	}
	link, err := ns.LinkByIndex(index)
	if err != nil {
		return err
	}
	if err := ns.SetLink(index, rtnl.LinkChange{Master: &master.index}); err != nil {
		return fmt.Errorf("put %s into VRF %s: %w", link.Attrs().Name, v.GetVrfMasterInterface(), err)
	}
	return nil
}

// updateInterface applies the changes that need no new device.
func (p *Plugin) updateInterface(_ context.Context, _ string, old, v *linuxInterface, _ InterfaceMetadata) (InterfaceMetadata, error) {
	at, err := p.locateInterface(v)
	if err != nil {
		return InterfaceMetadata{}, fmt.Errorf("update interface %s: %w", v.GetName(), err)
	}
	defer at.release()
	c := rtnl.LinkChange{Mtu: v.GetMtu()}
	if up := v.GetEnabled(); up != isUp(at.link) && !isExisting(v) && (up || !mayNotSetDown(v)) {
		c.Up, c.Down = up, !up
	}
	if setsMAC(v) && !sameMAC(v.GetPhysAddress(), at.link.Attrs().HardwareAddr.String()) {
		c.Mac, _ = net.ParseMAC(v.GetPhysAddress())
	}
	p.remember(at.ns, v, at.index)
	change := func() error { return reshape(at.ns, at.link, c) }
	if c.Mac != nil {
		err = at.keepNeighbours(change)
	} else {
		err = change()
	}
	if err != nil {
		p.remember(at.ns, old, at.index)
		return InterfaceMetadata{}, fmt.Errorf("update interface %s in %s: %w", v.GetName(), at.ns.Name, err)
	}
	return metadataOf(v, at.index), nil
}

// keepNeighbours restores the permanent neighbours of a device after change. The kernel deletes
// them when the MAC address changes.
func (at *location) keepNeighbours(change func() error) error {
	neighbours, err := permanentNeighbours(at.ns)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	for _, n := range neighbours {
		if n.Index != at.index {
			continue
		}
		if err := at.ns.SetNeighbour(n); err != nil {
			return fmt.Errorf("restore neighbour %s of %s: %w", n.Ip, at.link.Attrs().Name, err)
		}
	}
	return nil
}

// deleteInterface removes the device or returns it to its creator.
func (p *Plugin) deleteInterface(_ context.Context, _ string, v *linuxInterface, _ InterfaceMetadata) error {
	at, err := p.locateInterface(v)
	p.inventory.remove(v.GetName())
	if err == nil {
		err = p.deleteDevice(at, v)
		at.release()
	}
	if err == nil || isGone(err) {
		err = p.removeUnneeded(v.GetNamespace())
	}
	if err != nil && !isGone(err) {
		return fmt.Errorf("delete interface %s: %w", v.GetName(), err)
	}
	return nil
}

func (p *Plugin) deleteDevice(at *location, v *linuxInterface) error {
	switch v.GetType() {
	case linux_interfaces.Interface_EXISTING:
		return nil
	case linux_interfaces.Interface_LOOPBACK:
		// The device stays up, because others may use it.
		return at.ns.SetLink(at.index, rtnl.LinkChange{ClearAlias: true})
	case linux_interfaces.Interface_TAP_TO_VPP:
		if v.GetTap().GetVppTapIfName() != "" {
			return p.returnTap(at, v)
		}
	}
	return at.ns.DeleteLink(at.index)
}
