package own

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
)

// PortOf returns the bridge port of an interface.
func (v *Host) PortOf(iface string) (netlink.Link, error) {
	switch known := v.Reg.Iface(iface); known.GetType() {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		link, err := v.LinkNamed(DeviceName(DevPort, iface))
		if err == nil && link.Attrs().Alias != AliasPort+iface || rtnl.IsGone(err) {
			return nil, noDevice(iface)
		}
		return link, err
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		link, err := v.VXLANDevice(TunnelOf(known).VXLANID)
		if err == nil && link == nil {
			return nil, noDevice(iface)
		}
		return link, err
	}
	return v.Link(iface)
}

// Bridge finds the bridge of a bridge domain.
func (v *Host) Bridge(name string) (netlink.Link, error) {
	link, err := v.LinkNamed(DeviceName(DevBridge, name))
	if rtnl.IsGone(err) {
		return nil, fmt.Errorf("bridge domain %q: %w", name, rtnl.ErrNoDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up bridge domain %q: %w", name, err)
	}
	if found, _, ok := ParseBridgeAlias(link.Attrs().Alias); !ok || found != name {
		return nil, fmt.Errorf("bridge domain %q: %w: %s is another one", name, rtnl.ErrNoDevice, link.Attrs().Name)
	}
	return link, nil
}

// IdleMaster returns the index of the master of an interface that is no port: its VRF device; 0 if
// none.
func (v *Host) IdleMaster(iface string) (int, error) {
	known := v.Reg.Iface(iface)
	switch known.GetType() {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK, vpp_interfaces.Interface_VXLAN_TUNNEL:
		return 0, nil // another device is the port
	}
	if known.GetVrf() == 0 {
		return 0, nil
	}
	link, err := v.LinkNamed(VRFDeviceName(known.GetVrf()))
	if rtnl.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if _, _, ok := ParseVRFAlias(link.Attrs().Alias); !ok {
		return 0, nil
	}
	return link.Attrs().Index, nil
}
