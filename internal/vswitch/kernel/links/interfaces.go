package links

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
)

type interfaces struct{ *Driver }

func (v *Driver) InterfacePort() vswitch.Interfaces { return interfaces{v} }

func (v interfaces) Create(_ context.Context, iface *vpp_interfaces.Interface) error {
	if err := supported(iface); err != nil {
		return err
	}
	// The registry must hold the value first, because the type determines the device.
	v.Reg.Put(iface)
	var link netlink.Link
	err := v.vrf.IsolateAs(iface.GetName())
	if err == nil {
		link, err = v.createDevice(iface)
	}
	if err != nil {
		v.Reg.Remove(iface)
		return fmt.Errorf("creating interface %q: %w", iface.GetName(), err)
	}
	if link != nil && v.reports.Wanted() {
		v.tellOf(link)
	} else {
		v.reportInterface(iface)
	}
	return nil
}

func (v interfaces) createDevice(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		return v.createTap(iface)
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		return v.createLoopback(iface)
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return nil, v.createTunnel(iface)
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		return nil, v.adopt(iface)
	}
	return nil, v.createKind(iface)
}

func supported(iface *vpp_interfaces.Interface) error {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		switch tap := iface.GetTap(); {
		case tap.GetEnableTunnel():
			return vswitch.Unsupported("tap.enable_tunnel: TAPs of the Linux kernel carry Ethernet frames")
		}
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		switch link := iface.GetVxlan(); {
		case link.GetGpe() != nil:
			return vswitch.Unsupported("vxlan.gpe: use plain VXLAN")
		case !iface.GetEnabled():
			return vswitch.Unsupported("a disabled VXLAN tunnel: delete it instead")
		}
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK, vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
	default:
		if kind, _ := deviceKind(iface); kind == "" {
			return vswitch.Unsupported("interfaces of type %v: %s", iface.GetType(), lackedTypes[iface.GetType()])
		}
		if err := supportedKind(iface); err != nil {
			return err
		}
	}
	if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		return own.OnlyMain(iface.GetVrf(), "a VXLAN tunnel")
	}
	return own.VRFInRange(iface.GetVrf())
}

func (v interfaces) Update(_ context.Context, old, new *vpp_interfaces.Interface) error {
	if err := supported(new); err != nil {
		return err
	}
	v.Reg.Put(new)
	if new.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		return v.createTunnel(new)
	}
	defer v.reportInterface(new)
	err := v.vrf.IsolateAs(new.GetName())
	if err != nil {
		return fmt.Errorf("updating interface %q: %w", new.GetName(), err)
	}
	err = v.WithDevice(new.GetName(), func(index int) error {
		link, err := v.Net.LinkByIndex(index)
		if err != nil {
			return err
		}
		return v.adjust(link, new)
	})
	if err != nil {
		return fmt.Errorf("updating interface %q: %w", new.GetName(), err)
	}
	return nil
}

func (v interfaces) adjust(link netlink.Link, iface *vpp_interfaces.Interface) error {
	attrs := link.Attrs()
	up := attrs.Flags&net.FlagUp != 0
	ours := own.IsOurs(link)
	var c rtnl.LinkChange
	c.Up = iface.GetEnabled() && !up
	c.Down = !iface.GetEnabled() && up && ours
	if mtu := iface.GetMtu(); mtu != 0 && int(mtu) != attrs.MTU {
		c.Mtu = mtu
	}
	if mac := own.ParseMAC(iface.GetPhysAddress()); mac != nil && mac.String() != hardwareAddr(attrs) {
		c.Mac = mac
	}
	if !c.Up && !c.Down && c.Mtu == 0 && c.Mac == nil {
		return nil
	}
	if err := v.Net.SetLink(attrs.Index, c); err != nil {
		return fmt.Errorf("changing device %s: %w", attrs.Name, err)
	}
	if c.Mac != nil && iface.GetType() == vpp_interfaces.Interface_SOFTWARE_LOOPBACK {
		if err := v.MoveLoopbackFDB(iface.GetName(), attrs.HardwareAddr, c.Mac); err != nil {
			return err
		}
	}
	switch {
	case c.Up:
		return v.restore(iface.GetName(), attrs.Index)
	case c.Mac != nil:
		return v.neighbours.RestoreNeighbours(iface.GetName(), attrs.Index)
	}
	return nil
}

func (v interfaces) Delete(_ context.Context, iface *vpp_interfaces.Interface) error {
	device := ""
	if v.vrf.UsesVRFs() {
		device = v.vrf.DeviceOf(iface.GetName()) // while the registry holds it
	}
	err := v.Reg.During(iface, func() error {
		if err := v.vrf.ForgetVRFs(device); err != nil {
			return err
		}
		switch iface.GetType() {
		case vpp_interfaces.Interface_VXLAN_TUNNEL:
			return v.deleteTunnel(iface)
		case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
			return nil
		}
		return v.deleteDevice(iface.GetName())
	})
	if err != nil {
		return fmt.Errorf("deleting interface %q: %w", iface.GetName(), err)
	}
	v.Dev.Forget(iface.GetName())
	v.reports.Gone(iface.GetName())
	if err := v.vrf.Sweep(); err != nil {
		return fmt.Errorf("deleting interface %q: %w", iface.GetName(), err)
	}
	return nil
}

func (v interfaces) deleteDevice(logical string) error {
	v.Dev.Forget(logical)
	name, unknown := strings.CutPrefix(logical, own.UnknownPrefix)
	if !unknown {
		name = own.DeviceName(own.DevInterface, logical)
	}
	link, err := v.LinkNamed(name)
	switch {
	case rtnl.IsGone(err):
		return nil
	case err != nil:
		return err
	case !own.IsUnmarked(link) && (unknown || link.Attrs().Alias != own.AliasInterface+logical):
		return nil
	}
	return rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
}

// adopt uses an existing device, which it sets up if required. It changes MAC and MTU only if the
// value sets them.
func (v interfaces) adopt(iface *vpp_interfaces.Interface) error {
	link, err := v.Link(iface.GetName())
	if err != nil {
		return fmt.Errorf("existing device: %w: check its name with `ip link`", err)
	}
	if err := v.adjust(link, iface); err != nil {
		return err
	}
	v.Dev.Put(iface.GetName(), link.Attrs().Index)
	return nil
}

// EnableDevice enables the device of an interface that should be enabled, and reports whether it
// succeeded. It is for devices disabled by another party: their routes may be repaired before the
// interface is.
func (v *Driver) EnableDevice(iface string) bool {
	value := v.Reg.Iface(iface)
	link, err := v.Link(iface)
	return err == nil && value.GetEnabled() && interfaces{v}.adjust(link, value) == nil
}
