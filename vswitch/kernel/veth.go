package kernel

import (
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
)

// createTap makes a veth pair. The far end waits, down and under the name that
// both sides agree on, until a Linux interface takes it over: in the namespace that
// the TAP asks for, or in ours.
func (v interfaces) createTap(iface *vpp_interfaces.Interface) error {
	far, err := v.farEndOf(iface)
	defer far.close()
	if err != nil {
		return err
	}
	index, made, err := v.makePair(iface, far)
	if err != nil || !made {
		return err
	}
	return v.finishPair(iface, index)
}

// createLoopback makes a veth pair whose far end stays here: up, so that the near
// end has a carrier, and ready to be bound to a bridge domain.
func (v interfaces) createLoopback(iface *vpp_interfaces.Interface) error {
	far := deviceName(devPort, iface.GetName())
	index, made, err := v.makePair(iface, farEnd{name: far})
	if err != nil || !made {
		return err
	}
	peer, err := v.linkNamed(far)
	if err != nil {
		return fmt.Errorf("looking up the far end %s: %w", far, err)
	}
	if err := v.disableIPv6(far); err != nil {
		return err
	}
	if err := v.raw.setLink(peer.Attrs().Index, linkChange{alias: aliasPort + iface.GetName(), up: true}); err != nil {
		return fmt.Errorf("preparing the far end %s: %w", far, err)
	}
	return v.finishPair(iface, index)
}

// finishPair marks the near end as complete.
func (v interfaces) finishPair(iface *vpp_interfaces.Interface, index int) error {
	name := deviceName(devInterface, iface.GetName())
	if err := v.looseRPFilter(name); err != nil {
		return err
	}
	if err := v.raw.setLink(index, linkChange{alias: aliasInterface + iface.GetName(), up: iface.GetEnabled()}); err != nil {
		return fmt.Errorf("preparing device %s: %w", name, err)
	}
	v.dev.put(iface.GetName(), index)
	return nil
}

// makePair adds a veth pair with MAC and MTU. made is false if it was there,
// complete; then it is adjusted to the value.
func (v interfaces) makePair(iface *vpp_interfaces.Interface, far farEnd) (index int, made bool, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = deviceName(devInterface, iface.GetName())
	attrs.Group = deviceGroup
	attrs.MTU = int(iface.GetMtu())
	attrs.HardwareAddr = parseMAC(iface.GetPhysAddress())
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = far.name, iface.GetMtu()
	if far.ns != nil {
		veth.PeerNamespace = netlink.NsFd(far.ns.Fd())
	}

	err = v.nl.LinkAdd(veth)
	if exists(err) {
		var complete netlink.Link
		if complete, err = v.clear(attrs.Name, aliasInterface+iface.GetName(), far.String()); err != nil {
			return 0, false, err
		}
		if complete != nil && !v.atHome(complete, iface.GetTap().GetHostNamespace()) {
			v.dev.forget(iface.GetName())
			if err := ignoreGone(v.delLink(complete.Attrs().Index)); err != nil {
				return 0, false, err
			}
		} else if complete != nil {
			v.dev.put(iface.GetName(), complete.Attrs().Index)
			return complete.Attrs().Index, false, v.adjust(complete, iface)
		}
		veth.Index = 0
		err = v.nl.LinkAdd(veth)
	}
	if err != nil {
		return 0, false, fmt.Errorf("adding the veth pair %s, %s: %w", attrs.Name, far, err)
	}
	return veth.Index, true, nil
}

// clear finds out why a device could not be added. It returns the device if it
// is the one that was wanted, and removes it if it is a half-made one.
func (v *VSwitch) clear(name, alias, far string) (netlink.Link, error) {
	link, err := v.linkNamed(name)
	switch {
	case isGone(err):
		return nil, fmt.Errorf("the name %s of the far end is taken by another device: remove that, or choose another host_if_name", far)
	case err != nil:
		return nil, err
	case link.Attrs().Alias == alias:
		return link, nil
	case isUnmarked(link):
		return nil, ignoreGone(v.delLink(link.Attrs().Index))
	}
	return nil, fmt.Errorf("device %s exists and is not ours (alias %q): remove or rename it", name, link.Attrs().Alias)
}
