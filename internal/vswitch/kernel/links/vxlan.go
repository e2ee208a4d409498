package links

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// One VXLAN device serves all tunnels with its source and VNI. A tunnel is an FDB entry of the
// device for the all-zero MAC, which receives frames for unknown MACs. So all tunnels of a device
// are in the same bridge domain, if any, and do not forward to each other, as split horizon
// requires.
//
// A tunnel to a multicast group has a separate device, which joins the group: the group is an
// option of the device.

const vxlanPort = 4789

func (v interfaces) createTunnel(iface *vpp_interfaces.Interface) error {
	id := own.TunnelOf(iface)
	for _, other := range own.All[*vpp_interfaces.Interface](v.Reg) {
		if other.GetName() != iface.GetName() && other.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && own.TunnelOf(other) == id {
			return fmt.Errorf("tunnel %q has the same addresses and VNI", other.GetName())
		}
	}
	var group *multicastGroup
	if name := iface.GetVxlan().GetMulticast(); name != "" {
		via, err := v.Link(name)
		if err != nil {
			return fmt.Errorf("interface of the multicast group: %w", err)
		}
		group = &multicastGroup{id.Dst, via.Attrs().Index}
	}
	// First, because a network without a tunnel accepts packets from any source.
	if err := v.guards.PermitTunnel(id); err != nil {
		return err
	}
	link, err := v.ensureVXLAN(iface.GetName(), id.VXLANID, group)
	if err != nil {
		return err
	}
	delete(v.movedFrom, iface.GetName())
	if group != nil {
		return nil
	}
	if err := v.Net.NeighAppend(tunnelEntry(link, id.Dst)); err != nil && !rtnl.Exists(err) {
		return fmt.Errorf("adding peer %s to device %s: %w", id.Dst, link.Attrs().Name, err)
	}
	return nil
}

func tunnelEntry(link netlink.Link, dst netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		State: netlink.NUD_PERMANENT, IP: dst.AsSlice(), HardwareAddr: own.ZeroMAC,
	}
}

type multicastGroup struct {
	addr netip.Addr
	via  int
}

func groupOf(link netlink.Link) *multicastGroup {
	vxlan, ok := link.(*netlink.Vxlan)
	if !ok || vxlan.Group == nil || !own.AddrOf(vxlan.Group).IsMulticast() {
		return nil
	}
	return &multicastGroup{own.AddrOf(vxlan.Group), vxlan.VtepDevIndex}
}

// ensureVXLAN returns the device of the tunnel, created for the group unless it is nil.
func (v interfaces) ensureVXLAN(tunnel string, id own.VXLANID, group *multicastGroup) (netlink.Link, error) {
	link, err := v.VXLANDevice(id)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return v.addVXLAN(tunnel, id, group)
	}
	if have := groupOf(link); (have == nil) != (group == nil) || have != nil && *have != *group {
		return nil, fmt.Errorf("a tunnel to a multicast group shares source %s and VNI %d with no other tunnel: give one of them another VNI", id.Src, id.Vni)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		err = v.Net.SetLink(link.Attrs().Index, rtnl.LinkChange{Up: true})
	}
	return link, err
}

func (v interfaces) addVXLAN(tunnel string, id own.VXLANID, group *multicastGroup) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = own.VXLANDeviceName(id)
	attrs.Group = own.DeviceGroup
	vxlan := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: int(id.Vni), SrcAddr: id.Src.AsSlice(), Port: vxlanPort}
	if group != nil {
		vxlan.Group, vxlan.VtepDevIndex = group.addr.AsSlice(), group.via
	}
	err := v.Net.LinkAdd(vxlan)
	if rtnl.Exists(err) {
		if _, lookupErr := v.LinkNamed(attrs.Name); rtnl.IsGone(lookupErr) {
			err = v.replaceVXLAN(tunnel, id)
		} else {
			_, err = v.Clear(attrs.Name, id.Alias(), attrs.Name)
		}
		if err != nil {
			return nil, err
		}
		vxlan.Index = 0
		err = v.Net.LinkAdd(vxlan)
	}
	if err != nil {
		return nil, fmt.Errorf("adding VXLAN device %s: %w", attrs.Name, err)
	}
	if err := v.DisableIPv6(attrs.Name); err != nil {
		return nil, err
	}
	if err := v.Net.SetLink(vxlan.Index, rtnl.LinkChange{Alias: id.Alias(), Up: true}); err != nil {
		return nil, fmt.Errorf("preparing VXLAN device %s: %w", attrs.Name, err)
	}
	return vxlan, nil
}

// replaceVXLAN deletes the device with the same VNI and another source, if the tunnel was on it
// before. The kernel has one device per VNI and IP version. When the node's address changes, the
// scheduler recreates the tunnels one by one: the first one replaces the device, and the others
// follow.
func (v interfaces) replaceVXLAN(tunnel string, id own.VXLANID) error {
	links, err := v.Net.Links()
	if err != nil {
		return err
	}
	for _, link := range links {
		other, ours := own.ParseVXLANAlias(link.Attrs().Alias)
		switch {
		case !ours || other.Vni != id.Vni || other.Src.Is6() != id.Src.Is6():
		case v.movedFrom[tunnel] == other:
			return v.deleteVXLAN(link, other)
		default:
			var names []string
			for _, iface := range v.Tunnels(func(t own.Tunnel) bool { return t.VXLANID == other }) {
				names = append(names, iface.GetName())
			}
			return fmt.Errorf("VNI %d is in use with the source %v (tunnels: %s): the kernel has one source for each VNI and IP version; use that source, or another VNI",
				id.Vni, other.Src, strings.Join(names, ", "))
		}
	}
	return fmt.Errorf("VNI %d on port %d is taken by another VXLAN device: remove that (see `ip -d link show type vxlan`)", id.Vni, vxlanPort)
}

func (v interfaces) deleteVXLAN(link netlink.Link, id own.VXLANID) error {
	maps.DeleteFunc(v.movedFrom, func(_ string, from own.VXLANID) bool { return from == id })
	return rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
}

// deleteTunnel removes the entry of the tunnel, and with the last one the device. A tunnel without
// destination is a device without tunnels.
func (v interfaces) deleteTunnel(iface *vpp_interfaces.Interface) error {
	id := own.TunnelOf(iface)
	if err := v.removeTunnel(iface.GetName(), id); err != nil {
		return err
	}
	return v.guards.ForbidTunnel(id)
}

func (v interfaces) removeTunnel(name string, id own.Tunnel) error {
	link, err := v.VXLANDevice(id.VXLANID)
	if err != nil {
		return err
	}
	if link == nil {
		return v.DeleteUnmarked(own.VXLANDeviceName(id.VXLANID))
	}
	if groupOf(link) != nil {
		return v.deleteVXLAN(link, id.VXLANID)
	}
	if id.Dst.IsValid() {
		if err := rtnl.IgnoreGone(v.Net.NeighDel(tunnelEntry(link, id.Dst))); err != nil {
			return fmt.Errorf("removing peer %s from device %s: %w", id.Dst, link.Attrs().Name, err)
		}
	}
	entries, err := v.Fdb(link.Attrs().Index)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if own.IsTunnelEntry(e) {
			v.movedFrom[name] = id.VXLANID
			return nil
		}
	}
	return v.deleteVXLAN(link, id.VXLANID)
}
