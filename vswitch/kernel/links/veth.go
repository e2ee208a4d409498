package links

import (
	"fmt"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

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
	far := own.DeviceName(own.DevPort, iface.GetName())
	index, made, err := v.makePair(iface, farEnd{name: far})
	if err != nil || !made {
		return err
	}
	peer, err := v.LinkNamed(far)
	if err != nil {
		return fmt.Errorf("looking up the far end %s: %w", far, err)
	}
	if err := v.DisableIPv6(far); err != nil {
		return err
	}
	if err := v.Net.SetLink(peer.Attrs().Index, rtnl.LinkChange{Alias: own.AliasPort + iface.GetName(), Up: true}); err != nil {
		return fmt.Errorf("preparing the far end %s: %w", far, err)
	}
	return v.finishPair(iface, index)
}

// finishPair marks the near end as complete.
func (v interfaces) finishPair(iface *vpp_interfaces.Interface, index int) error {
	name := own.DeviceName(own.DevInterface, iface.GetName())
	if err := v.IgnoreRouters(name); err != nil {
		return err
	}
	if err := v.Net.SetLink(index, rtnl.LinkChange{Alias: own.AliasInterface + iface.GetName(), Up: iface.GetEnabled()}); err != nil {
		return fmt.Errorf("preparing device %s: %w", name, err)
	}
	v.Dev.Put(iface.GetName(), index)
	return nil
}

// makePair adds a veth pair with MAC and MTU. made is false if it was there,
// complete; then it is adjusted to the value.
func (v interfaces) makePair(iface *vpp_interfaces.Interface, far farEnd) (index int, made bool, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = own.DeviceName(own.DevInterface, iface.GetName())
	attrs.Group = own.DeviceGroup
	attrs.MTU = int(iface.GetMtu())
	attrs.HardwareAddr = own.ParseMAC(iface.GetPhysAddress())
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = far.name, iface.GetMtu()
	if far.NS != nil {
		veth.PeerNamespace = netlink.NsFd(far.NS.Fd())
	}

	err = v.Net.LinkAdd(veth)
	if rtnl.Exists(err) {
		var complete netlink.Link
		if complete, err = v.Clear(attrs.Name, own.AliasInterface+iface.GetName(), far.String()); err != nil {
			return 0, false, err
		}
		if complete != nil && !v.atHome(complete, iface.GetTap().GetHostNamespace()) {
			v.Dev.Forget(iface.GetName())
			if err := rtnl.IgnoreGone(v.DelLink(complete.Attrs().Index)); err != nil {
				return 0, false, err
			}
		} else if complete != nil {
			v.Dev.Put(iface.GetName(), complete.Attrs().Index)
			return complete.Attrs().Index, false, v.adjust(complete, iface)
		}
		veth.Index = 0
		err = v.Net.LinkAdd(veth)
	}
	if err != nil {
		return 0, false, fmt.Errorf("adding the veth pair %s, %s: %w", attrs.Name, far, err)
	}
	return veth.Index, true, nil
}
