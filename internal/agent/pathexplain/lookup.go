package pathexplain

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// lookup returns the way of a packet without a mark. Policy rules may select it by addresses,
// protocol, ports and the device In, which is "" for packets of the node itself. Without Src, it
// has the source address that the kernel chooses.
func lookup(p foreign.Packet) (netlink.Route, error) { return lookUp(p, unix.RTM_F_LOOKUP_TABLE) }

// matchedRoute is lookup, but returns the entry of the routing table.
func matchedRoute(p foreign.Packet) (netlink.Route, error) {
	return lookUp(p, unix.RTM_F_LOOKUP_TABLE|unix.RTM_F_FIB_MATCH)
}

func lookUp(p foreign.Packet, flags uint32) (route netlink.Route, err error) {
	if !p.Dst.IsValid() {
		return route, unix.EINVAL
	}
	bits := uint8(p.Dst.BitLen())
	msg := &nl.RtMsg{}
	msg.Family, msg.Dst_len, msg.Flags = unix.AF_INET, bits, flags
	if p.Dst.Is6() {
		msg.Family = unix.AF_INET6
	}
	if p.Src.IsValid() {
		msg.Src_len = bits
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_REQUEST)
	req.AddData(msg)
	add := func(attr int, value []byte) { req.AddData(nl.NewRtAttr(attr, value)) }
	add(unix.RTA_DST, p.Dst.AsSlice())
	if p.Src.IsValid() {
		add(unix.RTA_SRC, p.Src.AsSlice())
	}
	if p.In != "" {
		link, err := netlink.LinkByName(p.In)
		if err != nil {
			return route, err
		}
		add(unix.RTA_IIF, nl.Uint32Attr(uint32(link.Attrs().Index)))
	}
	switch p.Protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP:
		add(unix.RTA_IP_PROTO, []byte{p.Protocol})
		for attr, port := range map[int]uint16{unix.RTA_SPORT: p.SrcPort, unix.RTA_DPORT: p.DstPort} {
			if port != 0 {
				add(attr, binary.BigEndian.AppendUint16(nil, port))
			}
		}
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6: // the kernel accepts no other protocols here
		add(unix.RTA_IP_PROTO, []byte{p.Protocol})
	}
	answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil || len(answers) == 0 || len(answers[0]) < unix.SizeofRtMsg {
		return route, errors.Join(err, unix.ENETUNREACH)
	}
	return parseRoute(answers[0]), nil
}

// parseRoute decodes the fields that this package uses.
func parseRoute(m []byte) (route netlink.Route) {
	route.Table, route.Type = int(m[4]), int(m[7])
	route.Protocol = netlink.RouteProtocol(m[5])
	for attr, value := range nlattr.All(m[unix.SizeofRtMsg:]) {
		switch attr {
		case unix.RTA_OIF:
			route.LinkIndex = int(binary.NativeEndian.Uint32(value))
		case unix.RTA_GATEWAY:
			route.Gw = value
		case unix.RTA_PREFSRC:
			route.Src = value
		case unix.RTA_DST:
			route.Dst = &net.IPNet{IP: value, Mask: net.CIDRMask(int(m[1]), 8*len(value))}
		case unix.RTA_TABLE:
			route.Table = int(binary.NativeEndian.Uint32(value))
		}
	}
	return route
}

// deviceOf returns the name of a route's device.
func deviceOf(route netlink.Route) (string, error) {
	link, err := netlink.LinkByIndex(route.LinkIndex)
	if err != nil {
		return "", err
	}
	return link.Attrs().Name, nil
}

// routeTo returns the device and, if known, the source address by which the node itself reaches an
// address.
func routeTo(to netip.Addr) (device string, src netip.Addr, err error) {
	return routeOf(foreign.Packet{Dst: to})
}

// routeOf is routeTo for a packet of the node without a source address.
func routeOf(p foreign.Packet) (device string, src netip.Addr, err error) {
	route, err := lookup(p)
	if err != nil {
		return "", src, err
	}
	src, _ = netip.AddrFromSlice(route.Src)
	device, err = deviceOf(route)
	return device, src.Unmap(), err
}
