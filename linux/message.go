package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Requests that netlink.Handle does not offer: changing all of a device at once,
// and addresses with their protocol.

// ownProtocol marks our routes (RTA_PROTOCOL) and addresses (IFA_PROTO). The kernel
// vswitch has other numbers: the two share namespaces and, by AF_PACKET, devices, and
// each removes what has its mark and is not requested.
const ownProtocol = 126

// What the kernel vswitch marks its own with.
const (
	// vswitchProtocol: addresses, routes and neighbours.
	vswitchProtocol = 121
	// leasedProtocol: addresses that its DHCP client obtained.
	leasedProtocol = 123
)

// ifaProto is IFA_PROTO of linux/if_addr.h. Kernels before 5.18 ignore it.
const ifaProto = 11

// extMaskSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h.
const extMaskSkipStats = 1 << 3

// dumpAttempts bounds how often a dump is repeated that a change interrupted.
const dumpAttempts = 10

// linkChange is a change of a device. Zero fields are left as they are.
type linkChange struct {
	// toNetNS moves the device to another namespace; its addresses and routes
	// are lost, and it is down there unless up says otherwise.
	toNetNS *netNS
	name    string
	mac     net.HardwareAddr
	mtu     uint32
	alias   *string
	up      *bool
	group   *uint32
}

// changeLink changes the device with the index in one request. The kernel moves
// it first. A failure in the middle leaves what was done until then.
func (ns *netNS) changeLink(index int, c linkChange) error {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	if c.up != nil {
		msg.Change = unix.IFF_UP
		if *c.up {
			msg.Flags = unix.IFF_UP
		}
	}
	req := ns.request(unix.RTM_SETLINK, unix.NLM_F_ACK, msg)
	if c.toNetNS != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(c.toNetNS.fd))))
	}
	if c.name != "" {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(c.name)))
	}
	if len(c.mac) > 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, c.mac))
	}
	if c.mtu != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(c.mtu)))
	}
	if c.alias != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(*c.alias)))
	}
	if c.group != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(*c.group)))
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// links returns the devices of the namespace, without counters.
func (ns *netNS) links() ([]netlink.Link, error) {
	messages, err := ns.dump(unix.RTM_GETLINK, unix.RTM_NEWLINK, func() []nl.NetlinkRequestData {
		return []nl.NetlinkRequestData{
			nl.NewIfInfomsg(unix.AF_UNSPEC),
			nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(extMaskSkipStats)),
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list devices of %s: %w", ns.name, err)
	}
	links := make([]netlink.Link, 0, len(messages))
	for _, m := range messages {
		link, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, fmt.Errorf("list devices of %s: %w", ns.name, err)
		}
		links = append(links, link)
	}
	return links, nil
}

// linkByName returns the device with the name, ErrNoDevice if there is none.
func (ns *netNS) linkByName(name string) (netlink.Link, error) {
	link, err := ns.LinkByName(name)
	return link, ns.linkError(err, name)
}

// linkByIndex returns the device with the index, ErrNoDevice if there is none.
func (ns *netNS) linkByIndex(index int) (netlink.Link, error) {
	link, err := ns.LinkByIndex(index)
	return link, ns.linkError(err, fmt.Sprintf("#%d", index))
}

func (ns *netNS) linkError(err error, device string) error {
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("device %s of %s: %w", device, ns.name, ErrNoDevice)
	}
	if err != nil {
		return fmt.Errorf("look up device %s of %s: %w", device, ns.name, err)
	}
	return nil
}

// address is an address of a device.
type address struct {
	index    int
	prefix   netip.Prefix // with host bits
	protocol uint8        // 0: unknown
}

// addresses returns the addresses of all devices of the namespace.
func (ns *netNS) addresses() ([]address, error) {
	messages, err := ns.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, func() []nl.NetlinkRequestData {
		return []nl.NetlinkRequestData{nl.NewIfAddrmsg(unix.AF_UNSPEC)}
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", ns.name, err)
	}
	addresses := make([]address, 0, len(messages))
	for _, m := range messages {
		if a, ok := parseAddress(m); ok {
			addresses = append(addresses, a)
		}
	}
	return addresses, nil
}

// parseAddress decodes the payload of RTM_NEWADDR and RTM_DELADDR.
func parseAddress(m []byte) (address, bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return address{}, false
	}
	msg := nl.DeserializeIfAddrmsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil {
		return address{}, false
	}
	a := address{index: int(msg.Index)}
	var ip, local netip.Addr
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.IFA_ADDRESS:
			ip, _ = netip.AddrFromSlice(attr.Value)
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(attr.Value)
		case ifaProto:
			if len(attr.Value) > 0 {
				a.protocol = attr.Value[0]
			}
		}
	}
	if local.IsValid() { // on point-to-point devices, IFA_ADDRESS is the peer's
		ip = local
	}
	a.prefix = netip.PrefixFrom(ip, int(msg.Prefixlen))
	return a, a.prefix.IsValid()
}

// addAddress adds an address, marked as ours. noDAD: an IPv6 address is usable
// at once, without looking for duplicates.
func (ns *netNS) addAddress(index int, prefix netip.Prefix, noDAD bool) error {
	msg, data := addressMessage(index, prefix)
	if noDAD && prefix.Addr().Is6() {
		msg.IfAddrmsg.Flags = unix.IFA_F_NODAD
	}
	data = append(data, nl.NewRtAttr(ifaProto, []byte{ownProtocol}))
	if prefix.Addr().Is4() && prefix.Bits() < 31 { // RFC 3021
		data = append(data, nl.NewRtAttr(unix.IFA_BROADCAST, broadcast(prefix).AsSlice()))
	}
	req := ns.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, append([]nl.NetlinkRequestData{msg}, data...)...)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// deleteAddress removes an address.
func (ns *netNS) deleteAddress(index int, prefix netip.Prefix) error {
	msg, data := addressMessage(index, prefix)
	req := ns.request(unix.RTM_DELADDR, unix.NLM_F_ACK, append([]nl.NetlinkRequestData{msg}, data...)...)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func addressMessage(index int, prefix netip.Prefix) (*nl.IfAddrmsg, []nl.NetlinkRequestData) {
	family := unix.AF_INET
	if prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	msg := nl.NewIfAddrmsg(family)
	msg.Index = uint32(index)
	msg.Prefixlen = uint8(prefix.Bits())
	ip := prefix.Addr().AsSlice()
	return msg, []nl.NetlinkRequestData{nl.NewRtAttr(unix.IFA_LOCAL, ip), nl.NewRtAttr(unix.IFA_ADDRESS, ip)}
}

func broadcast(prefix netip.Prefix) netip.Addr {
	ip := prefix.Addr().As4()
	mask := net.CIDRMask(prefix.Bits(), 32)
	for i := range ip {
		ip[i] |= ^mask[i]
	}
	return netip.AddrFrom4(ip)
}

// request makes a request on the raw socket.
func (ns *netNS) request(kind, flags int, data ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(kind, flags)
	req.Sockets = ns.raw
	for _, d := range data {
		req.AddData(d)
	}
	return req
}

// dump lists objects, again when they changed while being listed.
func (ns *netNS) dump(kind, reply int, data func() []nl.NetlinkRequestData) (messages [][]byte, err error) {
	err = repeatInterrupted(func() error {
		req := ns.request(kind, unix.NLM_F_DUMP, data()...)
		messages, err = req.Execute(unix.NETLINK_ROUTE, uint16(reply))
		return err
	})
	return messages, err
}

func repeatInterrupted(dump func() error) (err error) {
	for range dumpAttempts {
		if err = dump(); !errors.Is(err, nl.ErrDumpInterrupted) {
			return err
		}
	}
	return err
}

// routes returns the routes of the main table that are ours.
func (ns *netNS) routes() (routes []netlink.Route, err error) {
	err = repeatInterrupted(func() error {
		routes, err = ns.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: ownProtocol}, netlink.RT_FILTER_PROTOCOL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list routes of %s: %w", ns.name, err)
	}
	return routes, nil
}

// neighbours returns the permanent IPv4 and IPv6 neighbours that the vswitch did not make.
func (ns *netNS) neighbours() (neighbours []netlink.Neigh, err error) {
	messages, err := ns.dump(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, func() []nl.NetlinkRequestData {
		return []nl.NetlinkRequestData{&netlink.Ndmsg{}}
	})
	if err != nil {
		return nil, fmt.Errorf("list neighbours of %s: %w", ns.name, err)
	}
	for _, m := range messages {
		n, err := netlink.NeighDeserialize(m)
		if err != nil {
			return nil, fmt.Errorf("list neighbours of %s: %w", ns.name, err)
		}
		if n.State&netlink.NUD_PERMANENT != 0 && neighbourProtocol(m) != vswitchProtocol {
			neighbours = append(neighbours, *n)
		}
	}
	return neighbours, nil
}

// neighbourProtocol returns the mark in the payload of RTM_NEWNEIGH (NDA_PROTOCOL), 0 without.
func neighbourProtocol(m []byte) byte {
	const ndmsgLen, ndaProtocol = 12, 12
	attrs, err := nl.ParseRouteAttr(m[min(ndmsgLen, len(m)):])
	if err != nil {
		return 0
	}
	for _, attr := range attrs {
		if attr.Attr.Type == ndaProtocol && len(attr.Value) > 0 {
			return attr.Value[0]
		}
	}
	return 0
}

// parseRoute decodes the payload of RTM_NEWROUTE and RTM_DELROUTE; false if it is
// no route of the main table to one next hop.
func parseRoute(m []byte) (netlink.Route, bool) {
	if len(m) < unix.SizeofRtMsg {
		return netlink.Route{}, false
	}
	msg := nl.DeserializeRtMsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil || msg.Table != unix.RT_TABLE_MAIN || msg.Flags&unix.RTM_F_CLONED != 0 ||
		msg.Family != unix.AF_INET && msg.Family != unix.AF_INET6 {
		return netlink.Route{}, false
	}
	r := netlink.Route{
		Family: int(msg.Family), Type: int(msg.Type), Scope: netlink.Scope(msg.Scope),
		Protocol: netlink.RouteProtocol(msg.Protocol), Table: int(msg.Table),
	}
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.RTA_DST:
			r.Dst = &net.IPNet{IP: attr.Value, Mask: net.CIDRMask(int(msg.Dst_len), 8*len(attr.Value))}
		case unix.RTA_GATEWAY:
			r.Gw = attr.Value
		case unix.RTA_OIF:
			r.LinkIndex = int(binary.NativeEndian.Uint32(attr.Value))
		case unix.RTA_PRIORITY:
			r.Priority = int(binary.NativeEndian.Uint32(attr.Value))
		}
	}
	return r, true
}
