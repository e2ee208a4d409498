package nic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes and flags that package unix lacks.
const (
	rtaNextHopID = 30
	rtaExpires   = 23
	rtaCacheInfo = 12
	rtaIIF       = 3
	// routeFlags are the flags that a request may have.
	routeFlags = unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE
	forever    = ^uint32(0)
	userHZ     = 100
)

func (k Kernel) addresses(index int) (list []Object, err error) {
	req := k.Request(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	msg := nl.NewIfAddrmsg(unix.AF_UNSPEC)
	msg.Index = uint32(index)
	req.AddData(msg)
	messages, err := rtnl.Dump(func() ([][]byte, error) { return k.Execute(req, unix.RTM_NEWADDR) })
	for _, m := range messages {
		if a, ok := rtnl.ParseAddress(m); ok && a.Index == index {
			list = append(list, Object{Text: a.Prefix.String(), Message: slices.Clone(m)})
		}
	}
	return list, err
}

func sameAddress(list []Object, o Object) bool { return Has(list, o.Text) }

// lifetimes returns the struct ifa_cacheinfo of an address.
func lifetimes(message []byte) []byte {
	for attr, value := range nlattr.All(message[unix.SizeofIfAddrmsg:]) {
		if attr == unix.IFA_CACHEINFO && len(value) >= 8 {
			return value
		}
	}
	return nil
}

// expired reports whether the lifetime of an address has passed.
func expired(o Object, elapsed time.Duration) bool {
	info := lifetimes(o.Message)
	if info == nil {
		return false
	}
	valid := binary.NativeEndian.Uint32(info[4:8])
	return valid != forever && time.Duration(valid)*time.Second <= elapsed
}

// addAddress gives the device an address, unless it has expired.
func (k Kernel) addAddress(o Object, index int, elapsed time.Duration) error {
	if len(o.Message) < unix.SizeofIfAddrmsg {
		return fmt.Errorf("%d bytes are no address", len(o.Message))
	}
	if expired(o, elapsed) {
		return nil
	}
	m := slices.Clone(o.Message)
	binary.NativeEndian.PutUint32(m[4:8], uint32(index))
	const stateOfKernel = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_SECONDARY | unix.IFA_F_DEPRECATED | unix.IFA_F_OPTIMISTIC
	m[2] &^= stateOfKernel & 0xff
	if m[0] == unix.AF_INET6 {
		m[2] |= unix.IFA_F_NODAD // the node has used it all the time
	}
	for attr, value := range nlattr.All(m[unix.SizeofIfAddrmsg:]) {
		if attr == unix.IFA_FLAGS && len(value) == 4 {
			flags := binary.NativeEndian.Uint32(value) &^ stateOfKernel
			if m[0] == unix.AF_INET6 {
				flags |= unix.IFA_F_NODAD
			}
			binary.NativeEndian.PutUint32(value, flags)
		}
	}
	if info := lifetimes(m); info != nil {
		for _, at := range []int{0, 4} {
			if left := binary.NativeEndian.Uint32(info[at:]); left != forever {
				binary.NativeEndian.PutUint32(info[at:], left-min(left, uint32(elapsed/time.Second)))
			}
		}
	}
	req := k.Request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	req.AddRawData(m)
	if err := k.Do(req); err != nil && !rtnl.Exists(err) {
		return err
	}
	return nil
}

// routes reads the routes that lead to a device, of all tables except the kernel's own.
func (k Kernel) routes(index int) (list []Object, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		req := k.Request(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: family}})
		messages, err := rtnl.Dump(func() ([][]byte, error) { return k.Execute(req, unix.RTM_NEWROUTE) })
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			r := parseRoute(m)
			if len(m) < unix.SizeofRtMsg || r.table == unix.RT_TABLE_LOCAL || m[7] != unix.RTN_UNICAST || !slices.Contains(r.devices, index) || r.dst.Addr().IsLinkLocalUnicast() && r.dst.Addr().Is6() {
				continue
			}
			list = append(list, Object{Text: r.String(), Message: slices.Clone(m)})
		}
	}
	return list, nil
}

type route struct {
	dst      netip.Prefix
	gateways []netip.Addr
	devices  []int
	table    uint32
	metric   uint32
	protocol uint8
}

// String leaves out the device, which is the same for all.
func (r *route) String() string {
	text := r.dst.String()
	if r.dst.Bits() == 0 {
		text = "default"
		if r.dst.Addr().Is6() {
			text = "default (IPv6)"
		}
	}
	for _, gateway := range r.gateways {
		text += " via " + gateway.String()
	}
	if r.metric != 0 {
		text += fmt.Sprintf(" metric %d", r.metric)
	}
	if r.table != unix.RT_TABLE_MAIN {
		text += fmt.Sprintf(" table %d", r.table)
	}
	return text
}

func parseRoute(m []byte) *route {
	r := &route{}
	if len(m) < unix.SizeofRtMsg {
		return r
	}
	addr := netip.IPv4Unspecified()
	if m[0] == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	r.table, r.protocol = uint32(m[4]), m[5]
	for attr, value := range nlattr.All(m[unix.SizeofRtMsg:]) {
		switch attr {
		case unix.RTA_DST:
			if dst, ok := netip.AddrFromSlice(value); ok {
				addr = dst
			}
		case unix.RTA_MULTIPATH:
			for hop := range hops(value) {
				r.devices = append(r.devices, int(binary.NativeEndian.Uint32(hop[4:8])))
				for attr, value := range nlattr.All(hop[unix.SizeofRtNexthop:]) {
					r.addGateway(attr, value)
				}
			}
		default:
			r.addGateway(attr, value)
			if len(value) != 4 {
				continue
			}
			switch number := binary.NativeEndian.Uint32(value); attr {
			case unix.RTA_OIF:
				r.devices = append(r.devices, int(number))
			case unix.RTA_TABLE:
				r.table = number
			case unix.RTA_PRIORITY:
				r.metric = number
			}
		}
	}
	r.dst = netip.PrefixFrom(addr, int(m[1]))
	return r
}

func (r *route) addGateway(attr int, value []byte) {
	switch attr {
	case unix.RTA_GATEWAY:
	case unix.RTA_VIA: // family, then the address
		value = value[min(2, len(value)):]
	default:
		return
	}
	if gateway, ok := netip.AddrFromSlice(value); ok {
		r.gateways = append(r.gateways, gateway)
	}
}

func hops(data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) >= unix.SizeofRtNexthop {
			length := int(binary.NativeEndian.Uint16(data))
			if length < unix.SizeofRtNexthop || length > len(data) || !yield(data[:length]) {
				return
			}
			data = data[min(len(data), (length+3)&^3):]
		}
	}
}

// nearestFirst sorts on-link routes before routes with a gateway, which need them.
func nearestFirst(routes []Object) []Object {
	routes = slices.Clone(routes)
	slices.SortStableFunc(routes, func(a, b Object) int {
		return min(1, len(parseRoute(a.Message).gateways)) - min(1, len(parseRoute(b.Message).gateways))
	})
	return routes
}

// addRoute adds a route before others of the same metric. The index of its device may have changed.
func (k Kernel) addRoute(o Object, was, index int) error {
	m, err := requestable(o.Message, was, index)
	if err != nil {
		return err
	}
	flags := unix.NLM_F_CREATE
	if m[0] == unix.AF_INET6 {
		flags |= unix.NLM_F_EXCL // else the kernel merges it with another route
	}
	req := k.Request(unix.RTM_NEWROUTE, flags)
	req.AddRawData(m)
	if err := k.Do(req); err != nil && !rtnl.Exists(err) {
		return err
	}
	return nil
}

// requestable turns the kernel's description into a request.
func requestable(description []byte, was, index int) ([]byte, error) {
	if len(description) < unix.SizeofRtMsg {
		return nil, fmt.Errorf("%d bytes are no route", len(description))
	}
	m := slices.Clone(description[:unix.SizeofRtMsg])
	binary.NativeEndian.PutUint32(m[8:12], binary.NativeEndian.Uint32(m[8:12])&routeFlags)
	move := func(field []byte) {
		if int(binary.NativeEndian.Uint32(field)) == was {
			binary.NativeEndian.PutUint32(field, uint32(index))
		}
	}
	for attr, value := range nlattr.All(description[unix.SizeofRtMsg:]) {
		value := slices.Clone(value)
		switch attr {
		case rtaNextHopID, rtaIIF, rtaExpires:
			continue
		case rtaCacheInfo: // struct rta_cacheinfo: IPv6 routes that expire
			if len(value) < 12 || binary.NativeEndian.Uint32(value[8:]) == 0 {
				continue
			}
			attr, value = rtaExpires, nl.Uint32Attr(binary.NativeEndian.Uint32(value[8:])/userHZ)
		case unix.RTA_OIF:
			move(value)
		case unix.RTA_MULTIPATH:
			for hop := range hops(value) {
				hop[2] &= routeFlags
				move(hop[4:8])
			}
		}
		m = append(m, nl.NewRtAttr(attr, value).Serialize()...)
	}
	return m, nil
}

// Route is a route as other packages see it.
type Route struct {
	// Destination is invalid for a route outside the main table or with several next hops.
	Destination netip.Prefix
	// NextHop is the zero Addr if the destinations are on the link.
	NextHop netip.Addr
	Metric  uint32
}

// MainRoutes returns the routes of the main table with one next hop.
func (s *State) MainRoutes() (list []Route) {
	for _, o := range s.Routes {
		r := parseRoute(o.Message)
		if !InMain(o) || len(r.gateways) > 1 || len(r.devices) != 1 {
			continue
		}
		route := Route{Destination: r.dst.Masked(), Metric: r.metric}
		if len(r.gateways) == 1 {
			route.NextHop = r.gateways[0]
		}
		list = append(list, route)
	}
	return list
}

// InMain reports whether a route is in the main table.
func InMain(o Object) bool { return parseRoute(o.Message).table == unix.RT_TABLE_MAIN }

// Describe lists objects for people.
func Describe(objects []Object) string { return strings.Join(texts(objects), ", ") }

// IsIPv6 reports whether an address or a route is IPv6.
func IsIPv6(o Object) bool { return len(o.Message) > 0 && o.Message[0] == unix.AF_INET6 }
