package kernel

import (
	"context"
	"fmt"
	"net"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
)

type interfaces struct{ *VSwitch }

// unknownPrefix starts the names of objects that are ours, but that nobody can
// name. Behind it is the name of the device, or what identifies the tunnel.
const unknownPrefix = "UNKNOWN-"

func (v interfaces) Create(_ context.Context, iface *vpp_interfaces.Interface) error {
	if err := supported(iface); err != nil {
		return err
	}
	// The registry has to know the value first: it says what kind of device to
	// look for.
	v.reg.put(iface)
	err := v.isolateAs(iface.GetName())
	if err == nil {
		err = v.createDevice(iface)
	}
	if err != nil {
		v.reg.remove(iface)
		return fmt.Errorf("creating interface %q: %w", iface.GetName(), err)
	}
	v.reportInterface(iface)
	return nil
}

func (v interfaces) createDevice(iface *vpp_interfaces.Interface) error {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		return v.createTap(iface)
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		return v.createLoopback(iface)
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return v.createTunnel(iface)
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		return v.adopt(iface)
	}
	return v.createKind(iface)
}

// supported says what the kernel cannot do for an interface.
func supported(iface *vpp_interfaces.Interface) error {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		switch tap := iface.GetTap(); {
		case tap.GetToMicroservice() != "":
			return vswitch.Unsupported("tap.to_microservice: use a Linux interface of type TAP_TO_VPP with a namespace")
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
		return onlyMain(iface.GetVrf(), "a VXLAN tunnel")
	}
	return vrfInRange(iface.GetVrf())
}

func (v interfaces) Update(_ context.Context, old, new *vpp_interfaces.Interface) error {
	if err := supported(new); err != nil {
		return err
	}
	v.reg.put(new)
	if new.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		return v.createTunnel(new)
	}
	defer v.reportInterface(new)
	err := v.isolateAs(new.GetName())
	if err != nil {
		return fmt.Errorf("updating interface %q: %w", new.GetName(), err)
	}
	err = v.withDevice(new.GetName(), func(index int) error {
		link, err := v.nl.LinkByIndex(index)
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

// adjust makes state, MAC and MTU of an existing device those of the value.
func (v interfaces) adjust(link netlink.Link, iface *vpp_interfaces.Interface) error {
	attrs := link.Attrs()
	up := attrs.Flags&net.FlagUp != 0
	ours := isOurs(link)
	var c linkChange
	c.up = iface.GetEnabled() && !up
	c.down = !iface.GetEnabled() && up && ours
	if mtu := iface.GetMtu(); mtu != 0 && int(mtu) != attrs.MTU {
		c.mtu = mtu
	}
	if mac := parseMAC(iface.GetPhysAddress()); mac != nil && mac.String() != hardwareAddr(attrs) {
		c.mac = mac
	}
	if !c.up && !c.down && c.mtu == 0 && c.mac == nil {
		return nil
	}
	if err := v.raw.setLink(attrs.Index, c); err != nil {
		return fmt.Errorf("changing device %s: %w", attrs.Name, err)
	}
	if c.mac != nil && iface.GetType() == vpp_interfaces.Interface_SOFTWARE_LOOPBACK {
		if err := v.moveLoopbackFDB(iface.GetName(), attrs.HardwareAddr, c.mac); err != nil {
			return err
		}
	}
	switch {
	case c.up:
		return v.restore(iface.GetName(), attrs.Index)
	case c.mac != nil:
		return v.restoreNeighbours(iface.GetName(), attrs.Index)
	}
	return nil
}

func (v interfaces) Delete(_ context.Context, iface *vpp_interfaces.Interface) error {
	device := ""
	if v.usesVRFs() {
		device = v.deviceOf(iface.GetName()) // as long as the registry knows it
	}
	err := v.reg.during(iface, func() error {
		if err := v.forgetVRFs(device); err != nil {
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
	v.dev.forget(iface.GetName())
	v.reports.Gone(iface.GetName())
	return nil
}

// deleteDevice removes the device that we made behind a logical name.
func (v interfaces) deleteDevice(logical string) error {
	index, ok := v.dev.get(logical)
	v.dev.forget(logical)
	if !ok {
		name, unknown := strings.CutPrefix(logical, unknownPrefix)
		if !unknown {
			name = deviceName(devInterface, logical)
		}
		link, err := v.linkNamed(name)
		switch {
		case isGone(err):
			return nil
		case err != nil:
			return err
		case unknown && !isUnmarked(link), !unknown && link.Attrs().Alias != aliasInterface+logical && !isUnmarked(link):
			return nil
		}
		index = link.Attrs().Index
	}
	return ignoreGone(v.delLink(index))
}

func (v *VSwitch) delLink(index int) error { return v.remover.remove(index) }

// adopt takes an existing device into use: it has to be there and may be brought
// up; MAC and MTU are changed only where the value says so.
func (v interfaces) adopt(iface *vpp_interfaces.Interface) error {
	link, err := v.link(iface.GetName())
	if err != nil {
		return fmt.Errorf("existing device: %w: check its name with `ip link`", err)
	}
	if err := v.adjust(link, iface); err != nil {
		return err
	}
	v.dev.put(iface.GetName(), link.Attrs().Index)
	return nil
}

// parseMAC returns nil for an unset address.
func parseMAC(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil
	}
	return mac
}
