package vrf

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type placedRoute struct {
	index int
	table uint32
	proto uint8
	typ   uint8
	dst   netip.Prefix
	src   netip.Addr
}

// routesOfAddress returns the routes that the kernel would create in VRF 0: the address before
// routes that use it as source.
func routesOfAddress(index int, addr netip.Prefix, vrf uint32) []placedRoute {
	ip := addr.Addr()
	route := placedRoute{index: index, table: own.TableOf(vrf), proto: own.ProtoVRF}
	local, connected, broadcast := route, route, route
	local.typ, local.dst = unix.RTN_LOCAL, own.HostPrefix(ip)
	connected.typ, connected.dst = unix.RTN_UNICAST, addr.Masked()
	list := []placedRoute{local}
	if ip.Is4() {
		connected.src = ip
	}
	if addr.Bits() < ip.BitLen() {
		list = append(list, connected)
	}
	if ip.Is4() && addr.Bits() < 31 {
		broadcast.typ, broadcast.dst, broadcast.src = unix.RTN_BROADCAST, own.HostPrefix(lastOf(addr)), ip
		list = append(list, broadcast)
	}
	return list
}

func lastOf(network netip.Prefix) netip.Addr {
	last := network.Masked().Addr().As4()
	for i, b := range net.CIDRMask(network.Bits(), 32) {
		last[i] |= ^b
	}
	return netip.AddrFrom4(last)
}

func (r placedRoute) madeFor(a rtnl.Address) bool {
	switch r.typ {
	case unix.RTN_LOCAL:
		return r.dst.Addr() == a.Prefix.Addr()
	case unix.RTN_BROADCAST:
		return r.src == a.Prefix.Addr()
	case unix.RTN_ANYCAST:
		return r.dst.Addr() == a.Prefix.Masked().Addr()
	}
	return false
}

// addPlaced appends the route to those of other devices to the same network.
func addPlaced(r *rtnl.Conn, p placedRoute) error {
	return changePlaced(r, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, p)
}

func delPlaced(r *rtnl.Conn, p placedRoute) error { return changePlaced(r, unix.RTM_DELROUTE, 0, p) }

func changePlaced(r *rtnl.Conn, typ, flags int, p placedRoute) error {
	req := r.Request(typ, flags)
	msg := &nl.RtMsg{}
	msg.Family, msg.Dst_len = uint8(rtnl.Family(p.dst.Addr())), uint8(p.dst.Bits())
	msg.Protocol, msg.Type = p.proto, p.typ
	switch {
	case typ == unix.RTM_DELROUTE:
		msg.Scope = unix.RT_SCOPE_NOWHERE
	case p.dst.Addr().Is6():
	case p.typ == unix.RTN_LOCAL:
		msg.Scope = unix.RT_SCOPE_HOST
	default:
		msg.Scope = unix.RT_SCOPE_LINK
	}
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.RTA_DST, p.dst.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(p.table)))
	req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(p.index))))
	if p.src.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_PREFSRC, p.src.AsSlice()))
	}
	if typ == unix.RTM_NEWROUTE && p.dst.Addr().Is6() && p.typ == unix.RTN_UNICAST {
		req.AddData(nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(256))) // as the kernel does
	}
	return r.Do(req)
}

// placed returns the matching routes of an IP version; zero values match all.
func placed(r *rtnl.Conn, family, index int, table uint32, proto uint8) ([]placedRoute, error) {
	list, err := rtnl.Dump(func() ([]placedRoute, error) {
		req := r.Request(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		msg := &nl.RtMsg{}
		msg.Family, msg.Protocol = uint8(family), proto
		req.AddData(msg)
		if table != 0 {
			req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(table)))
		}
		if index != 0 {
			req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))))
		}
		msgs, err := r.Execute(req, unix.RTM_NEWROUTE)
		var list []placedRoute
		for _, m := range msgs {
			p, ok := parsePlaced(m)
			if ok && (index == 0 || p.index == index) && (table == 0 || p.table == table) && (proto == 0 || p.proto == proto) {
				list = append(list, p)
			}
		}
		return list, err
	})
	return list, rtnl.IgnoreGone(err) // the first route creates the table
}

func parsePlaced(m []byte) (p placedRoute, ok bool) {
	if len(m) < unix.SizeofRtMsg {
		return p, false
	}
	p.table, p.proto, p.typ = uint32(m[4]), m[5], m[7]
	addr := netip.IPv4Unspecified()
	if m[0] == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	for attr, value := range nlattr.All(m[unix.SizeofRtMsg:]) {
		switch attr {
		case unix.RTA_DST:
			addr, _ = netip.AddrFromSlice(value)
		case unix.RTA_TABLE:
			p.table = binary.NativeEndian.Uint32(value)
		case unix.RTA_OIF:
			p.index = int(binary.NativeEndian.Uint32(value))
		case unix.RTA_PREFSRC:
			p.src, _ = netip.AddrFromSlice(value)
		}
	}
	p.dst = netip.PrefixFrom(addr, int(m[1]))
	return p, true
}
