package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// noticeRoute finds out which values an event of rtnetlink concerns. Most concern
// none: routes, neighbours and devices of others.
func (v *VSwitch) noticeRoute(m syscall.NetlinkMessage, send func(notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		v.noticeLink(m, send)
	case unix.RTM_DELADDR:
		v.noticeAddress(m.Data, send)
		v.noticeExternal(m.Data, send)
	case unix.RTM_NEWADDR:
		v.noticeExternal(m.Data, send)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		v.noticeRouteChange(m, send)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		v.noticeRule(m.Data, send)
	case unix.RTM_DELTFILTER:
		v.noticeFilter(m.Data, send)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if len(m.Data) > 0 && m.Data[0] == unix.AF_BRIDGE {
			v.noticeFDB(m, send)
		} else {
			v.noticeNeighbour(m, send)
		}
	}
}

func (v *VSwitch) noticeLink(m syscall.NetlinkMessage, send func(notice)) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return
	}
	if m.Data[0] == unix.AF_BRIDGE {
		send(notice{ports: true})
		return
	}
	header := unix.NlMsghdr(m.Header)
	link, err := netlink.LinkDeserialize(&header, m.Data)
	if err != nil {
		return
	}
	attrs := link.Attrs()
	v.dhcp.check(v.logicalOf(link))
	if _, known := v.dev.name(attrs.Index); !known && strings.HasPrefix(attrs.Alias, aliasInterface) {
		return // we deleted it, and may have made another one since
	}
	if m.Header.Type == unix.RTM_DELLINK {
		for _, state := range v.statesOf(link, noSettings) {
			v.reports.Gone(state.GetName())
		}
		send(notice{reason: fmt.Sprintf("device %s was deleted", attrs.Name), keys: v.keysOfDevice(link)})
		return
	}
	if len(v.keysOfDevice(link)) > 0 {
		if wentDown(m.Data) {
			// That takes the routes along, and the kernel does not say so.
			if iface := v.reg.iface(v.logicalOf(link)); iface.GetEnabled() && !v.reg.isMember(iface.GetName()) {
				send(notice{reason: fmt.Sprintf("device %s went down", attrs.Name), keys: v.keysOfDevice(link)})
			}
		}
		send(notice{link: attrs.Index})
	}
}

// wentDown tells if the event says that a device was up and is not any more. The
// events of a new device, whose flags all count as changed, say that it is down, too,
// and may be read when it has long been up.
func wentDown(ifinfomsg []byte) bool {
	flags, changed := nl.NativeEndian().Uint32(ifinfomsg[8:12]), nl.NativeEndian().Uint32(ifinfomsg[12:16])
	return flags&unix.IFF_UP == 0 && changed&unix.IFF_UP != 0 && changed != ^uint32(0)
}

// logicalOf returns the logical name behind a device, ours or existing.
func (v *VSwitch) logicalOf(link netlink.Link) string {
	if name, ok := strings.CutPrefix(link.Attrs().Alias, aliasInterface); ok {
		return name
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, aliasPort); ok {
		return name
	}
	if name, ok := v.dev.name(link.Attrs().Index); ok {
		return name
	}
	return link.Attrs().Name
}

// keysOfDevice returns the keys of all values that need the device.
func (v *VSwitch) keysOfDevice(link netlink.Link) []string {
	alias := link.Attrs().Alias
	if name, _, ok := parseBDAlias(alias); ok {
		var keys []string
		for _, bd := range all[*vpp_l2.BridgeDomain](v.reg) {
			if bd.GetName() == name {
				keys = append(keys, models.Key(bd))
			}
		}
		for _, entry := range all[*vpp_l2.FIBEntry](v.reg) {
			if entry.GetBridgeDomain() == name {
				keys = append(keys, models.Key(entry))
			}
		}
		return keys
	}
	if id, ok := parseVXLANAlias(alias); ok {
		var keys []string
		for _, iface := range v.tunnels(func(t tunnel) bool { return t.vxlanID == id }) {
			keys = append(keys, v.reg.keysOf(iface.GetName())...)
		}
		return keys
	}
	name := v.logicalOf(link)
	if v.reg.iface(name) == nil {
		return nil
	}
	return v.reg.keysAfterLoss(name)
}

// tunnels returns the VXLAN tunnels that match.
func (v *VSwitch) tunnels(match func(tunnel) bool) []*vpp_interfaces.Interface {
	return slices.DeleteFunc(all[*vpp_interfaces.Interface](v.reg), func(iface *vpp_interfaces.Interface) bool {
		return iface.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL || !match(tunnelOf(iface))
	})
}

func (v *VSwitch) noticeAddress(data []byte, send func(notice)) {
	a, ok := parseAddress(data)
	if !ok {
		return
	}
	name, ok := v.dev.name(a.index)
	if !ok {
		return
	}
	if a.proto == protoLeased {
		v.dhcp.check(name)
		return
	}
	if iface := v.reg.iface(name); iface != nil && (a.isOf(addressTexts(iface)) || a.proto == protoBorrowed) {
		send(notice{addresses: a.index})
	}
}

func (v *VSwitch) noticeRouteChange(m syscall.NetlinkMessage, send func(notice)) {
	const sizeofRtMsg = 12
	if len(m.Data) < sizeofRtMsg {
		return
	}
	bits, table, protocol := int(m.Data[1]), uint32(m.Data[4]), m.Data[5]
	addr := netip.IPv4Unspecified()
	if m.Data[0] == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	device := 0
	for attr, value := range attributes(m.Data[sizeofRtMsg:]) {
		switch attr {
		case unix.RTA_OIF:
			device = int(binary.NativeEndian.Uint32(value))
		case unix.RTA_DST:
			addr, _ = netip.AddrFromSlice(value)
		case unix.RTA_TABLE:
			table = binary.NativeEndian.Uint32(value)
		}
	}
	dst := netip.PrefixFrom(addr, bits)
	vrf, inVRF := vrfOfTable(table)
	what := "deleted"
	switch {
	case m.Header.Type == unix.RTM_DELROUTE && protocol == protoSegments:
		send(notice{reason: fmt.Sprintf("route %s was deleted", dst), keys: v.srKeys(dst)})
		return
	case table == unix.RT_TABLE_LOCAL && m.Header.Type == unix.RTM_NEWROUTE:
		v.noticeLocal(device, send)
		return
	case m.Header.Type == unix.RTM_DELROUTE && protocol == protoVRF:
		send(notice{addresses: device})
		return
	case !inVRF:
		return
	case m.Header.Type == unix.RTM_DELROUTE && protocol == protoLeased:
		v.dhcp.checkAll()
		return
	case m.Header.Type == unix.RTM_DELROUTE && protocol != protoOurs:
		return
	case m.Header.Type == unix.RTM_NEWROUTE:
		if protocol == protoOurs || m.Header.Flags&unix.NLM_F_REPLACE == 0 {
			return
		}
		what = "replaced"
	}
	send(notice{reason: fmt.Sprintf("route %s was %s", dst, what), keys: keysOfValues(vrf, v.reg.routesTo(dst))})
}

// keysOfValues returns the keys of those in the VRF.
func keysOfValues(vrf uint32, routes []*vpp_l3.Route) (keys []string) {
	for _, r := range routes {
		if r.GetVrfId() == vrf {
			keys = append(keys, models.Key(r))
		}
	}
	return keys
}

func (v *VSwitch) noticeNeighbour(m syscall.NetlinkMessage, send func(notice)) {
	n, ok := parseNeighbour(m.Data)
	if !ok {
		return
	}
	name, ok := v.dev.name(n.index)
	if !ok {
		return
	}
	entry := v.neighbourEntry(name, n.ip)
	if entry == nil {
		return
	}
	what := "deleted"
	if m.Header.Type == unix.RTM_NEWNEIGH {
		if n.state&netlink.NUD_PERMANENT != 0 && n.mac.String() == parseMAC(entry.GetPhysAddress()).String() {
			return
		}
		what = "changed"
	}
	send(notice{reason: fmt.Sprintf("neighbour %s of interface %q was %s", n.ip, name, what), keys: []string{models.Key(entry)}})
}

// neighbourEntry finds the value of a neighbour, however its address is written.
func (v *VSwitch) neighbourEntry(iface string, ip netip.Addr) *vpp_l3.ARPEntry {
	if value, ok := v.reg.get(models.Key(&vpp_l3.ARPEntry{Interface: iface, IpAddress: ip.String()})); ok {
		return value.(*vpp_l3.ARPEntry)
	}
	if ip.Is4() {
		return nil
	}
	for _, entry := range all[*vpp_l3.ARPEntry](v.reg) {
		if addr, err := netip.ParseAddr(entry.GetIpAddress()); err == nil && addr == ip && entry.GetInterface() == iface {
			return entry
		}
	}
	return nil
}

// noticeFDB: entries of VXLAN devices are tunnels or belong to L2 FIB entries;
// those of bridges belong to L2 FIB entries, or to loopbacks.
func (v *VSwitch) noticeFDB(m syscall.NetlinkMessage, send func(notice)) {
	e, err := netlink.NeighDeserialize(m.Data)
	if err != nil {
		return
	}
	deleted := m.Header.Type == unix.RTM_DELNEIGH
	dst := addrOf(e.IP)
	if e.HardwareAddr.String() == zeroMAC.String() {
		if !deleted || !dst.IsValid() {
			return
		}
		for _, iface := range v.tunnels(func(t tunnel) bool { return t.dst == dst }) {
			send(notice{reason: fmt.Sprintf("VXLAN peer %s was removed", dst), keys: v.reg.keysOf(iface.GetName())})
		}
		return
	}
	mac := e.HardwareAddr.String()
	for _, entry := range all[*vpp_l2.FIBEntry](v.reg) {
		if parseMAC(entry.GetPhysAddress()).String() != mac || !deleted && v.echoes(entry, e) {
			continue
		}
		send(notice{reason: fmt.Sprintf("L2 FIB entry %s was changed", mac), keys: []string{models.Key(entry)}})
	}
	if deleted && e.State&netlink.NUD_NOARP != 0 {
		send(notice{ports: true})
	}
}

// echoes tells if an FDB entry is as the value wants it.
func (v *VSwitch) echoes(entry *vpp_l2.FIBEntry, e *netlink.Neigh) bool {
	port, err := v.portOf(entry.GetOutgoingInterface())
	if err != nil || port.Attrs().Index != e.LinkIndex {
		return false
	}
	out := v.reg.iface(entry.GetOutgoingInterface())
	return out.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL || e.IP == nil || addrOf(e.IP) == tunnelOf(out).dst
}
