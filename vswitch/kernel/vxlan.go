package kernel

import (
	"fmt"
	"net"
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// One VXLAN device serves all tunnels with its source and VNI. A tunnel is an
// entry for the all-zero MAC on it: where frames for unknown MACs are copied to.
// So all tunnels of a device are in the same bridge domain, if in any, and none
// forwards to another: split horizon comes for free.
//
// A tunnel to a multicast group has a device for itself, which joins the group: for the
// kernel, the group is what the device was made with.

const vxlanPort = 4789

var zeroMAC = make(net.HardwareAddr, 6)

// tunnel is the identity of a VXLAN tunnel.
type tunnel struct {
	vxlanID
	dst netip.Addr
}

func tunnelOf(iface *vpp_interfaces.Interface) tunnel {
	link := iface.GetVxlan()
	src, _ := netip.ParseAddr(link.GetSrcAddress())
	dst, _ := netip.ParseAddr(link.GetDstAddress())
	return tunnel{vxlanID{src.Unmap(), link.GetVni()}, dst.Unmap()}
}

func (v interfaces) createTunnel(iface *vpp_interfaces.Interface) error {
	id := tunnelOf(iface)
	for _, other := range all[*vpp_interfaces.Interface](v.reg) {
		if other.GetName() != iface.GetName() && other.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && tunnelOf(other) == id {
			return fmt.Errorf("tunnel %q has the same addresses and VNI", other.GetName())
		}
	}
	var group *multicastGroup
	if name := iface.GetVxlan().GetMulticast(); name != "" {
		via, err := v.link(name)
		if err != nil {
			return fmt.Errorf("interface of the multicast group: %w", err)
		}
		group = &multicastGroup{id.dst, via.Attrs().Index}
	}
	link, err := v.ensureVXLAN(id.vxlanID, group)
	if err != nil || group != nil {
		return err // the kernel adds the entry of a group itself
	}
	if err := v.nl.NeighAppend(tunnelEntry(link, id.dst)); err != nil && !exists(err) {
		return fmt.Errorf("adding peer %s to device %s: %w", id.dst, link.Attrs().Name, err)
	}
	return nil
}

func tunnelEntry(link netlink.Link, dst netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		State: netlink.NUD_PERMANENT, IP: dst.AsSlice(), HardwareAddr: zeroMAC,
	}
}

// vxlanDevice returns nil without an error if there is no such device.
func (v *VSwitch) vxlanDevice(id vxlanID) (netlink.Link, error) {
	link, err := v.linkNamed(vxlanDeviceName(id))
	switch {
	case isGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking up device %s: %w", vxlanDeviceName(id), err)
	case link.Attrs().Alias != id.alias():
		return nil, nil
	}
	return link, nil
}

// multicastGroup is a group and the index of the device that it is reached by.
type multicastGroup struct {
	addr netip.Addr
	via  int
}

// groupOf returns the group that a VXLAN device was made for, nil if for none.
func groupOf(link netlink.Link) *multicastGroup {
	vxlan, ok := link.(*netlink.Vxlan)
	if !ok || vxlan.Group == nil || !addrOf(vxlan.Group).IsMulticast() {
		return nil
	}
	return &multicastGroup{addrOf(vxlan.Group), vxlan.VtepDevIndex}
}

// ensureVXLAN returns the device, made for the group if that is not nil.
func (v interfaces) ensureVXLAN(id vxlanID, group *multicastGroup) (netlink.Link, error) {
	link, err := v.vxlanDevice(id)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return v.addVXLAN(id, group)
	}
	if have := groupOf(link); (have == nil) != (group == nil) || have != nil && *have != *group {
		return nil, fmt.Errorf("a tunnel to a multicast group shares source %s and VNI %d with no other tunnel: give one of them another VNI", id.src, id.vni)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		err = v.raw.setLink(link.Attrs().Index, linkChange{up: true})
	}
	return link, err
}

func (v interfaces) addVXLAN(id vxlanID, group *multicastGroup) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = vxlanDeviceName(id)
	attrs.Group = deviceGroup
	vxlan := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: int(id.vni), SrcAddr: id.src.AsSlice(), Port: vxlanPort}
	if group != nil {
		vxlan.Group, vxlan.VtepDevIndex = group.addr.AsSlice(), group.via
	}
	err := v.nl.LinkAdd(vxlan)
	if exists(err) {
		if _, lookupErr := v.linkNamed(attrs.Name); isGone(lookupErr) {
			return nil, fmt.Errorf("VNI %d on port %d is taken by another VXLAN device: remove that (see `ip -d link show type vxlan`)", id.vni, vxlanPort)
		}
		if _, err := v.clear(attrs.Name, id.alias(), attrs.Name); err != nil {
			return nil, err
		}
		vxlan.Index = 0
		err = v.nl.LinkAdd(vxlan)
	}
	if err != nil {
		return nil, fmt.Errorf("adding VXLAN device %s: %w", attrs.Name, err)
	}
	if err := v.disableIPv6(attrs.Name); err != nil {
		return nil, err
	}
	if err := v.raw.setLink(vxlan.Index, linkChange{alias: id.alias(), up: true}); err != nil {
		return nil, fmt.Errorf("preparing VXLAN device %s: %w", attrs.Name, err)
	}
	return vxlan, nil
}

// deleteTunnel removes the entry of the tunnel, and the device with the last one.
// A tunnel without destination is a device that was left without any.
func (v interfaces) deleteTunnel(iface *vpp_interfaces.Interface) error {
	id := tunnelOf(iface)
	link, err := v.vxlanDevice(id.vxlanID)
	if err != nil {
		return err
	}
	if link == nil {
		return v.deleteUnmarked(vxlanDeviceName(id.vxlanID))
	}
	if groupOf(link) != nil {
		return ignoreGone(v.delLink(link.Attrs().Index))
	}
	if id.dst.IsValid() {
		if err := ignoreGone(v.nl.NeighDel(tunnelEntry(link, id.dst))); err != nil {
			return fmt.Errorf("removing peer %s from device %s: %w", id.dst, link.Attrs().Name, err)
		}
	}
	entries, err := v.fdb(link.Attrs().Index)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isTunnelEntry(e) {
			return nil
		}
	}
	return ignoreGone(v.delLink(link.Attrs().Index))
}

func (v *VSwitch) deleteUnmarked(device string) error {
	link, err := v.linkNamed(device)
	if isGone(err) || err == nil && !isUnmarked(link) {
		return nil
	}
	if err != nil {
		return err
	}
	return ignoreGone(v.delLink(link.Attrs().Index))
}

func isTunnelEntry(e netlink.Neigh) bool {
	return e.HardwareAddr.String() == zeroMAC.String() && e.IP != nil && e.Flags&netlink.NTF_SELF != 0
}

// fdb reads the L2 forwarding entries of one device, or of all with index 0.
func (v *VSwitch) fdb(index int) ([]netlink.Neigh, error) {
	entries, err := dump(func() ([]netlink.Neigh, error) { return v.nl.NeighList(index, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("reading L2 forwarding entries: %w", err)
	}
	return entries, nil
}
