package links

import (
	"fmt"
	"net"
	"strings"
	"syscall"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type (
	suspectLink      int
	suspectAddresses int
)

// Notice determines the interfaces of an event.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		v.noticeLink(m, send)
	case unix.RTM_DELADDR:
		v.noticeAddress(m.Data, send)
	case unix.RTM_DELROUTE:
		if r, ok := rtnl.ParseRouteEvent(m); ok && r.Protocol == own.ProtoLeased && r.Table == unix.RT_TABLE_MAIN {
			v.dhcp.checkAll()
		}
	}
}

// Check compares devices and their addresses, and sends observers the changed interface states.
func (v *Driver) Check(b *drift.Batch) {
	var changed []netlink.Link
	for _, index := range drift.Suspects[suspectLink](b) {
		if link, err := v.Net.LinkByIndex(int(index)); err == nil { // its loss has a separate event
			v.checkLink(b, link)
			changed = append(changed, link)
		}
	}
	for _, index := range drift.Suspects[suspectAddresses](b) {
		v.checkAddresses(b, int(index))
	}
	if len(changed) > 0 && v.reports.Wanted() {
		v.tellOf(changed...)
	}
}

func (v *Driver) noticeLink(m syscall.NetlinkMessage, send func(drift.Notice)) {
	attrs, ok := rtnl.LinkAttrs(m)
	if !ok || m.Data[0] == unix.AF_BRIDGE {
		return
	}
	link := &netlink.Device{LinkAttrs: attrs}
	v.dhcp.check(v.LogicalOf(link))
	if _, known := v.Dev.Name(attrs.Index); !known && strings.HasPrefix(attrs.Alias, own.AliasInterface) {
		return // we deleted it, and may have recreated it since
	}
	if m.Header.Type == unix.RTM_DELLINK {
		for _, state := range v.statesOf(link, noSettings) {
			v.reports.Gone(state.GetName())
		}
		send(drift.Notice{Reason: fmt.Sprintf("device %s was deleted", attrs.Name), Keys: v.KeysOfDevice(link)})
		return
	}
	if len(v.KeysOfDevice(link)) > 0 {
		if wentDown(m.Data) {
			// The device loses its routes without an event.
			if iface := v.Reg.Iface(v.LogicalOf(link)); iface.GetEnabled() && !v.Reg.IsMember(iface.GetName()) {
				send(drift.Notice{Reason: fmt.Sprintf("device %s went down", attrs.Name), Keys: v.KeysOfDevice(link)})
			}
		}
		send(drift.Notice{Suspect: suspectLink(attrs.Index)})
	}
}

// wentDown reports whether a device was up and no longer is. Events of a new device, with all flags
// as changed, say that it is down, too, and may be read long after it was set up.
func wentDown(ifinfomsg []byte) bool {
	flags, changed := nl.NativeEndian().Uint32(ifinfomsg[8:12]), nl.NativeEndian().Uint32(ifinfomsg[12:16])
	return flags&unix.IFF_UP == 0 && changed&unix.IFF_UP != 0 && changed != ^uint32(0)
}

func (v *Driver) noticeAddress(data []byte, send func(drift.Notice)) {
	a, ok := rtnl.ParseAddress(data)
	if !ok {
		return
	}
	name, ok := v.Dev.Name(a.Index)
	if !ok {
		return
	}
	if a.Proto == own.ProtoLeased {
		v.dhcp.check(name)
		return
	}
	if iface := v.Reg.Iface(name); iface != nil && (isOf(a, own.AddressTexts(iface)) || a.Proto == own.ProtoBorrowed) {
		send(drift.Notice{Suspect: suspectAddresses(a.Index)})
	}
}

func (v *Driver) checkLink(b *drift.Batch, link netlink.Link) {
	attrs := link.Attrs()
	up := attrs.Flags&net.FlagUp != 0
	if id, ok := own.ParseVXLANAlias(attrs.Alias); ok {
		if !up {
			for _, iface := range v.Tunnels(func(t own.Tunnel) bool { return t.VXLANID == id }) {
				b.Report(fmt.Sprintf("device %s is down", attrs.Name), models.Key(iface))
			}
		}
		return
	}
	if _, _, ok := own.ParseBridgeAlias(attrs.Alias); ok || strings.HasPrefix(attrs.Alias, own.AliasPort) {
		return // of a bridge domain
	}
	iface := v.Reg.Iface(v.LogicalOf(link))
	if iface == nil {
		return
	}
	v.checkMember(b, iface.GetName(), attrs)
	var wrong string
	switch {
	case up != iface.GetEnabled() && (own.IsOurs(link) || !up):
		wrong = "is " + map[bool]string{true: "up", false: "down"}[up]
	case iface.GetMtu() != 0 && int(iface.GetMtu()) != attrs.MTU && iface.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL:
		wrong = fmt.Sprintf("has MTU %d", attrs.MTU)
	case iface.GetPhysAddress() != "" && own.ParseMAC(iface.GetPhysAddress()).String() != hardwareAddr(attrs):
		wrong = "has MAC " + hardwareAddr(attrs)
	default:
		return
	}
	b.Report(fmt.Sprintf("device %s %s", attrs.Name, wrong), models.Key(iface))
}

func (v *Driver) checkAddresses(b *drift.Batch, index int) {
	name, _ := v.Dev.Name(index)
	iface := v.Reg.Iface(name)
	addrs, err := v.Net.Addresses(index)
	if iface == nil || err != nil {
		return
	}
	wanted, borrows := v.Reg.Assigned(name)
	borrowed := false
	for _, a := range addrs {
		delete(wanted, a.Prefix)
		borrowed = borrowed || a.Proto == own.ProtoBorrowed
	}
	if len(wanted) > 0 || borrows && !borrowed {
		b.Report(fmt.Sprintf("an address of interface %q was removed", name), v.Reg.KeysAfterLoss(name)...)
	}
}
