package rtnl

import (
	"errors"
	"net"
	"net/netip"
	"reflect"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// RouteAdd adds a route; EEXIST if a route has the same destination, metric and table.
func (r *Conn) RouteAdd(route *netlink.Route) error {
	if !isPlain(*route) {
		return r.tryHandle("RouteAdd", func(h *netlink.Handle) error { return h.RouteAdd(route) })
	}
	return r.try("RouteAdd", func() error {
		req, err := r.plainRoute(route)
		if err == nil {
			_, err = r.socket.ask(req, 0)
		}
		return err
	})
}

// isPlain reports whether plainRoute supports all fields that are set.
func isPlain(route netlink.Route) bool {
	route.LinkIndex, route.Scope, route.Dst, route.Gw, route.Protocol = 0, 0, nil, nil, 0
	route.Priority, route.Family, route.Table, route.Type, route.Flags = 0, 0, 0, 0, 0
	return reflect.ValueOf(route).IsZero()
}

// plainRoute returns the request to add a route with one path.
func (r *Conn) plainRoute(route *netlink.Route) (*nl.NetlinkRequest, error) {
	if route.Dst == nil {
		return nil, errors.New("route has no destination")
	}
	dst, gw := addrOf(route.Dst.IP), addrOf(route.Gw)
	if !dst.IsValid() || gw.IsValid() && gw.Is4() != dst.Is4() {
		return nil, errors.New("destination and gateway of a route are not of the same IP version")
	}
	msg := nl.NewRtMsg()
	bits, _ := route.Dst.Mask.Size()
	msg.Family, msg.Dst_len, msg.Scope, msg.Flags = uint8(Family(dst)), uint8(bits), uint8(route.Scope), uint32(route.Flags)
	if route.Protocol != 0 {
		msg.Protocol = uint8(route.Protocol)
	}
	if route.Type != 0 {
		msg.Type = uint8(route.Type)
	}
	req := r.Request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.RTA_DST, dst.AsSlice()))
	if gw.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_GATEWAY, gw.AsSlice()))
	}
	if route.Table > 0xFF {
		msg.Table = unix.RT_TABLE_UNSPEC
		req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(uint32(route.Table))))
	} else if route.Table != 0 {
		msg.Table = uint8(route.Table)
	}
	if route.Priority != 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(uint32(route.Priority))))
	}
	req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(route.LinkIndex))))
	return req, nil
}

// addrOf returns an address, with IPv4 unmapped; invalid for nil.
func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
