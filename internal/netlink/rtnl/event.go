package rtnl

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RouteEvent is the change of a route.
type RouteEvent struct {
	Destination netip.Prefix
	Table       uint32
	Protocol    uint8
	Device      int // 0: several, or none
	Gateway     netip.Addr
	Metric      uint32
	Deleted     bool
	// Replaced: the route replaced another one.
	Replaced bool
}

// ParseRouteEvent returns false for other messages, and for cached (cloned) routes.
func ParseRouteEvent(m syscall.NetlinkMessage) (r RouteEvent, ok bool) {
	if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE || len(m.Data) < unix.SizeofRtMsg ||
		m.Data[0] != unix.AF_INET && m.Data[0] != unix.AF_INET6 || binary.NativeEndian.Uint32(m.Data[8:12])&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	r.Table, r.Protocol = uint32(m.Data[4]), m.Data[5]
	r.Deleted = m.Header.Type == unix.RTM_DELROUTE
	r.Replaced = m.Header.Flags&unix.NLM_F_REPLACE != 0
	addr := netip.IPv4Unspecified()
	if m.Data[0] == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	for attr, value := range nlattr.All(m.Data[unix.SizeofRtMsg:]) {
		switch attr {
		case unix.RTA_OIF:
			r.Device = int(binary.NativeEndian.Uint32(value))
		case unix.RTA_GATEWAY:
			r.Gateway, _ = netip.AddrFromSlice(value)
		case unix.RTA_DST:
			addr, _ = netip.AddrFromSlice(value)
		case unix.RTA_PRIORITY:
			r.Metric = binary.NativeEndian.Uint32(value)
		case unix.RTA_TABLE:
			r.Table = binary.NativeEndian.Uint32(value)
		}
	}
	r.Destination = netip.PrefixFrom(addr, int(m.Data[1]))
	return r, true
}

// LinkAttrs decodes only index, group, name and alias of the device of an event: wiring a pod
// causes many link events.
func LinkAttrs(m syscall.NetlinkMessage) (a netlink.LinkAttrs, ok bool) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return a, false
	}
	a.Index = int(int32(binary.NativeEndian.Uint32(m.Data[4:8])))
	for attr, value := range nlattr.All(m.Data[unix.SizeofIfInfomsg:]) {
		switch attr {
		case unix.IFLA_IFNAME:
			a.Name = unix.ByteSliceToString(value)
		case unix.IFLA_IFALIAS:
			a.Alias = unix.ByteSliceToString(value)
		case unix.IFLA_GROUP:
			a.Group = binary.NativeEndian.Uint32(value)
		}
	}
	return a, true
}

// LinkAlias returns the alias of the device of an event, or "".
func LinkAlias(m syscall.NetlinkMessage) string {
	a, _ := LinkAttrs(m)
	return a.Alias
}

// LinkIsUp reports whether the device of an event is up.
func LinkIsUp(ifinfomsg []byte) bool {
	return len(ifinfomsg) >= unix.SizeofIfInfomsg && binary.NativeEndian.Uint32(ifinfomsg[8:12])&unix.IFF_UP != 0
}
