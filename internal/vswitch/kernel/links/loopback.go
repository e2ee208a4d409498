package links

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

const defaultMTU = 1500

// createLoopback creates a bridge, which as the virtual interface of a bridge domain holds the
// domain's ports. It keeps a veth pair of an earlier version, see package bridges.
//
// A bridge takes MAC and MTU from its ports unless a request sets them. The kernel does not count
// the MTU of a new device as set, and ignores a request that changes nothing.
func (v interfaces) createLoopback(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	name, mtu, mac := own.DeviceName(own.DevInterface, iface.GetName()), iface.GetMtu(), own.ParseMAC(iface.GetPhysAddress())
	if mtu == 0 {
		mtu = defaultMTU
	}
	if mac == nil {
		mac = randomMAC()
	}
	device := rtnl.NewLink{
		Name: name, Kind: "bridge", Group: own.DeviceGroup, Mtu: mtu ^ 1, Mac: mac,
		Options: []rtnl.LinkOption{{Attr: nl.IFLA_BR_MCAST_SNOOPING, Value: []byte{0}}},
	}
	err := v.Net.AddLink(device)
	if rtnl.Exists(err) {
		complete, err := v.Clear(name, own.AliasInterface+iface.GetName(), name)
		if err != nil {
			return nil, err
		}
		if complete != nil {
			switch _, err := v.PortOf(iface.GetName()); {
			case err == nil:
				v.Dev.Put(iface.GetName(), complete.Attrs().Index)
				return nil, v.adjust(complete, iface)
			case !rtnl.IsGone(err):
				return nil, err
			}
			v.Dev.Forget(iface.GetName()) // a device of another kind
			if err := rtnl.IgnoreGone(v.DelLink(complete.Attrs().Index)); err != nil {
				return nil, err
			}
		}
		if err := v.Net.AddLink(device); err != nil {
			return nil, fmt.Errorf("adding device %s again: %w", name, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("adding device %s of kind bridge: %w", name, err)
	}
	if err := v.useWithoutPorts(name); err != nil {
		return nil, err
	}
	return v.finish(iface, rtnl.LinkChange{Mtu: mtu})
}

// useWithoutPorts keeps the routes by a bridge in use while it has no ports and thus no carrier.
func (v *Driver) useWithoutPorts(device string) error {
	return v.NS.Run(func() error {
		const name = "/ignore_routes_with_linkdown"
		return errors.Join(namespace.SetSysctl("ipv4/conf/"+device+name, "0"), namespace.SetSysctl(confOf(device, name[1:]), "0"))
	})
}

// randomMAC returns a locally administered address.
func randomMAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac)
	mac[0] = mac[0]&^1 | 2
	return mac
}
