package srv6

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netlink package supports neither nexthop objects nor flavors of segments.

const rtaNexthopID = 30 // RTA_NH_ID, Linux 5.3

type srRoute struct {
	dst    netip.Prefix
	table  uint32
	metric uint32
	nhid   uint32
	gw     netip.Addr
	index  int // device of the gateway or link
}

func addSRRoute(r *rtnl.Conn, route srRoute) error {
	return changeSRRoute(r, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, route)
}

func replaceSRRoute(r *rtnl.Conn, route srRoute) error {
	return changeSRRoute(r, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, route)
}

func delSRRoute(r *rtnl.Conn, route srRoute) error {
	return changeSRRoute(r, unix.RTM_DELROUTE, 0, route)
}

func changeSRRoute(r *rtnl.Conn, typ, flags int, route srRoute) error {
	req := r.Request(typ, flags)
	msg := nl.NewRtMsg()
	msg.Family, msg.Dst_len = uint8(rtnl.Family(route.dst.Addr())), uint8(route.dst.Bits())
	msg.Table, msg.Protocol = unix.RT_TABLE_UNSPEC, own.ProtoSegments
	if typ == unix.RTM_DELROUTE {
		msg.Scope = unix.RT_SCOPE_NOWHERE
	}
	if route.nhid == 0 && route.index == 0 {
		msg.Type = unix.RTN_BLACKHOLE
	}
	if route.gw.IsValid() {
		msg.Flags = unix.RTNH_F_ONLINK
	}
	req.AddData(msg)
	table := route.table
	if table == 0 {
		table = unix.RT_TABLE_MAIN
	}
	req.AddData(nl.NewRtAttr(unix.RTA_DST, route.dst.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(table)))
	if route.metric != 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(route.metric)))
	}
	if route.nhid != 0 {
		req.AddData(nl.NewRtAttr(rtaNexthopID, nl.Uint32Attr(route.nhid)))
	}
	if route.gw.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_GATEWAY, route.gw.AsSlice()))
	}
	if route.index != 0 && route.nhid == 0 { // a nexthop object has a device
		req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(route.index))))
	}
	return r.Do(req)
}

func srRoutes(r *rtnl.Conn, fam int) ([]srRoute, error) {
	return rtnl.Dump(func() ([]srRoute, error) {
		req := r.Request(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		msg := &nl.RtMsg{}
		msg.Family, msg.Protocol = uint8(fam), own.ProtoSegments
		req.AddData(msg)
		msgs, err := r.Execute(req, unix.RTM_NEWROUTE)
		var list []srRoute
		for _, m := range msgs {
			if len(m) >= unix.SizeofRtMsg && m[5] == own.ProtoSegments {
				list = append(list, parseSRRoute(m))
			}
		}
		return list, err
	})
}

func parseSRRoute(m []byte) (route srRoute) {
	addr := netip.IPv4Unspecified()
	if m[0] == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	for attr, value := range nlattr.All(m[unix.SizeofRtMsg:]) {
		switch attr {
		case unix.RTA_DST:
			addr, _ = netip.AddrFromSlice(value)
		case unix.RTA_TABLE:
			route.table = binary.NativeEndian.Uint32(value)
		case unix.RTA_PRIORITY:
			route.metric = binary.NativeEndian.Uint32(value)
		case rtaNexthopID:
			route.nhid = binary.NativeEndian.Uint32(value)
		case unix.RTA_GATEWAY:
			route.gw, _ = netip.AddrFromSlice(value)
		case unix.RTA_OIF:
			route.index = int(binary.NativeEndian.Uint32(value))
		}
	}
	route.dst = netip.PrefixFrom(addr, int(m[1]))
	return route
}

type srNexthop struct {
	id      uint32
	index   int
	kind    uint16
	encap   []byte
	members []srMember
}

type srMember struct {
	id     uint32
	weight uint32
}

const (
	sizeofNhmsg      = 8
	sizeofNexthopGrp = 8
)

// setNexthop creates the object or replaces it atomically.
func setNexthop(r *rtnl.Conn, n srNexthop) error {
	req := r.Request(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	msg := make([]byte, sizeofNhmsg)
	msg[2] = own.ProtoSegments
	if n.members == nil {
		msg[0] = unix.AF_INET6
	}
	req.AddRawData(msg)
	attrs := []*nl.RtAttr{nl.NewRtAttr(unix.NHA_ID, nl.Uint32Attr(n.id))}
	if n.members != nil {
		var group []byte
		for _, m := range n.members {
			group = binary.NativeEndian.AppendUint32(group, m.id)
			group = append(group, byte(m.weight-1), 0, 0, 0)
		}
		attrs = append(attrs, nl.NewRtAttr(unix.NHA_GROUP, group))
	} else {
		attrs = append(attrs,
			nl.NewRtAttr(unix.NHA_OIF, nl.Uint32Attr(uint32(n.index))),
			nl.NewRtAttr(unix.NHA_ENCAP_TYPE, nl.Uint16Attr(n.kind)),
			nl.NewRtAttr(unix.NHA_ENCAP|unix.NLA_F_NESTED, n.encap))
	}
	for _, attr := range attrs {
		req.AddRawData(attr.Serialize())
	}
	return r.Do(req)
}

func delNexthop(r *rtnl.Conn, id uint32) error {
	req := r.Request(unix.RTM_DELNEXTHOP, 0)
	req.AddRawData(make([]byte, sizeofNhmsg))
	req.AddRawData(nl.NewRtAttr(unix.NHA_ID, nl.Uint32Attr(id)).Serialize())
	return r.Do(req)
}

func nexthops(r *rtnl.Conn) (map[uint32]srNexthop, error) {
	list, err := rtnl.Dump(func() ([]srNexthop, error) {
		req := r.Request(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP)
		req.AddRawData(make([]byte, sizeofNhmsg))
		msgs, err := r.Execute(req, unix.RTM_NEWNEXTHOP)
		var list []srNexthop
		for _, m := range msgs {
			if len(m) >= sizeofNhmsg && m[2] == own.ProtoSegments {
				list = append(list, parseNexthop(m))
			}
		}
		return list, err
	})
	byID := make(map[uint32]srNexthop, len(list))
	for _, n := range list {
		byID[n.id] = n
	}
	return byID, err
}

func parseNexthop(m []byte) (n srNexthop) {
	for attr, value := range nlattr.All(m[sizeofNhmsg:]) {
		switch attr {
		case unix.NHA_ID:
			n.id = binary.NativeEndian.Uint32(value)
		case unix.NHA_ENCAP_TYPE:
			n.kind = binary.NativeEndian.Uint16(value)
		case unix.NHA_ENCAP:
			n.encap = value
		case unix.NHA_GROUP:
			for ; len(value) >= sizeofNexthopGrp; value = value[sizeofNexthopGrp:] {
				n.members = append(n.members, srMember{binary.NativeEndian.Uint32(value), uint32(value[4]) + 1})
			}
		}
	}
	return n
}
