package links

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
)

// createTap creates a veth pair. The far end waits, down and under the agreed name, in the
// namespace of the TAP or in ours, until a Linux interface takes it over.
func (v interfaces) createTap(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	far, err := v.farEndOf(iface)
	defer far.close()
	if err != nil {
		return nil, err
	}
	if made, err := v.makePair(iface, far); err != nil || !made {
		return nil, err
	}
	return v.finishPair(iface)
}

// createLoopback creates a veth pair with a local far end, which is up, so that the near end has a
// carrier, and ready to be bound to a bridge domain.
func (v interfaces) createLoopback(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	far := own.DeviceName(own.DevPort, iface.GetName())
	if made, err := v.makePair(iface, farEnd{name: far}); err != nil || !made {
		return nil, err
	}
	if err := v.DisableIPv6(far); err != nil {
		return nil, err
	}
	if err := v.Net.SetLinkNamed(far, rtnl.LinkChange{Alias: own.AliasPort + iface.GetName(), Up: true}); err != nil {
		return nil, fmt.Errorf("preparing the far end %s: %w", far, err)
	}
	return v.finishPair(iface)
}

// finishPair marks the near end as complete. It returns the device if observers want it.
func (v interfaces) finishPair(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	name := own.DeviceName(own.DevInterface, iface.GetName())
	if err := v.IgnoreRouters(name); err != nil {
		return nil, err
	}
	if iface.GetVrf() != 0 {
		if err := v.vrf.IsolateAs(iface.GetName()); err != nil {
			return nil, err
		}
	}
	link, index, err := v.setAndRead(name, rtnl.LinkChange{Alias: own.AliasInterface + iface.GetName(), Up: iface.GetEnabled()})
	if err != nil {
		return nil, fmt.Errorf("preparing device %s: %w", name, err)
	}
	v.Dev.Put(iface.GetName(), index)
	return link, nil
}

// setAndRead reads only the index unless observers want the device.
func (v *Driver) setAndRead(name string, c rtnl.LinkChange) (link netlink.Link, index int, err error) {
	if v.reports.Wanted() {
		if link, err = v.Net.SetAndRead(name, c); err != nil {
			return nil, 0, err
		}
		return link, link.Attrs().Index, nil
	}
	if err = v.Net.SetLinkNamed(name, c); err == nil {
		index, err = v.Net.LinkIndex(name)
	}
	return nil, index, err
}

// makePair adds a veth pair with MAC and MTU. made is false if the complete pair existed; then it
// is adjusted to the value.
func (v interfaces) makePair(iface *vpp_interfaces.Interface, far farEnd) (made bool, err error) {
	veth := rtnl.NewLink{
		Kind: "veth", Name: own.DeviceName(own.DevInterface, iface.GetName()), Group: own.DeviceGroup,
		Mtu: iface.GetMtu(), Mac: own.ParseMAC(iface.GetPhysAddress()), OneQueue: true,
		Options: []rtnl.LinkOption{rtnl.VethPeer(far.name, iface.GetMtu(), far.NS)},
	}
	err = v.Net.AddLink(veth)
	if rtnl.Exists(err) {
		var complete netlink.Link
		if complete, err = v.Clear(veth.Name, own.AliasInterface+iface.GetName(), far.String()); err != nil {
			return false, err
		}
		if complete != nil && !v.atHome(complete, iface.GetTap().GetHostNamespace()) {
			v.Dev.Forget(iface.GetName())
			if err := rtnl.IgnoreGone(v.DelLink(complete.Attrs().Index)); err != nil {
				return false, err
			}
		} else if complete != nil {
			v.Dev.Put(iface.GetName(), complete.Attrs().Index)
			return false, v.adjust(complete, iface)
		}
		err = v.Net.AddLink(veth)
	}
	if err != nil {
		return false, fmt.Errorf("adding the veth pair %s, %s: %w", veth.Name, far, err)
	}
	return true, nil
}
