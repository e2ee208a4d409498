package kernel

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Attributes that the netlink package does not know.
const (
	ifaProto    = 11 // IFA_PROTO, Linux 5.18
	ndaProtocol = 12 // NDA_PROTOCOL, Linux 5.0
)

// rtnl sends the requests that the netlink package has no functions for: several
// changes of a link in one request, and objects marked with a protocol number.
type rtnl struct {
	sockets map[int]*nl.SocketHandle
}

func newRtnl(ns netns.NsHandle) (*rtnl, error) {
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	// With strict checking the kernel filters dumps by what the header says.
	// Kernels without it send more, which the callers filter out.
	_ = unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return &rtnl{sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

func (r *rtnl) close() { r.sockets[unix.NETLINK_ROUTE].Close() }

func (r *rtnl) request(typ, flags int) *nl.NetlinkRequest {
	return &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: uint16(typ), Flags: uint16(unix.NLM_F_REQUEST | flags)},
		Sockets:  r.sockets,
	}
}

// do sends a request that has no answer but success or failure.
func do(req *nl.NetlinkRequest) error {
	req.Flags |= unix.NLM_F_ACK
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// dump repeats a dump that was disturbed by changes, until it is consistent. It
// gives up after some attempts: under constant change, what was read last has
// to do.
func dump[T any](read func() ([]T, error)) ([]T, error) {
	for attempt := 0; ; attempt++ {
		list, err := read()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
		if attempt == 10 {
			return list, nil
		}
	}
}

// linkChange is a set of changes to a link; zero fields change nothing.
type linkChange struct {
	alias  string
	up     bool
	down   bool
	mtu    uint32
	mac    net.HardwareAddr
	master *int // index; 0: none
}

// setLink makes all changes in one request; the kernel may stop in the middle
// when one fails.
func (r *rtnl) setLink(index int, c linkChange) error {
	req := r.request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	if c.up || c.down {
		msg.Change = unix.IFF_UP
	}
	if c.up {
		msg.Flags = unix.IFF_UP
	}
	req.AddData(msg)
	if c.alias != "" {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(c.alias)))
	}
	if c.mtu != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(c.mtu)))
	}
	if c.mac != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, c.mac))
	}
	if c.master != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(*c.master))))
	}
	return do(req)
}

// portFlags are the parameters of a bridge port.
type portFlags struct {
	learning, unicastFlood, bcastFlood, mcastFlood, isolated bool
}

// port is a device bound to a bridge.
type port struct {
	index, master int
	flags         portFlags
}

func (r *rtnl) setPort(index int, f portFlags) error {
	req := r.request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_BRIDGE)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	for attr, on := range map[int]bool{
		nl.IFLA_BRPORT_LEARNING:      f.learning,
		nl.IFLA_BRPORT_UNICAST_FLOOD: f.unicastFlood,
		nl.IFLA_BRPORT_BCAST_FLOOD:   f.bcastFlood,
		nl.IFLA_BRPORT_MCAST_FLOOD:   f.mcastFlood,
		nl.IFLA_BRPORT_ISOLATED:      f.isolated,
	} {
		info.AddRtAttr(attr, []byte{boolByte(on)})
	}
	req.AddData(info)
	return do(req)
}

// setVXLANLearning changes whether a VXLAN device learns where MACs are.
func (r *rtnl) setVXLANLearning(index int, on bool) error {
	req := r.request(unix.RTM_NEWLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_VXLAN_LEARNING, []byte{boolByte(on)})
	req.AddData(info)
	return do(req)
}

func (r *rtnl) ports() ([]port, error) {
	return dump(func() ([]port, error) {
		req := r.request(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		var ports []port
		for _, m := range msgs {
			p := port{index: int(int32(binary.NativeEndian.Uint32(m[4:8])))}
			for attr, value := range attributes(m[unix.SizeofIfInfomsg:]) {
				switch attr {
				case unix.IFLA_MASTER:
					p.master = int(binary.NativeEndian.Uint32(value))
				case unix.IFLA_PROTINFO:
					p.flags = parsePortFlags(value)
				}
			}
			if p.master != 0 {
				ports = append(ports, p)
			}
		}
		return ports, err
	})
}

func parsePortFlags(data []byte) (f portFlags) {
	for attr, value := range attributes(data) {
		on := len(value) == 1 && value[0] != 0
		switch attr {
		case nl.IFLA_BRPORT_LEARNING:
			f.learning = on
		case nl.IFLA_BRPORT_UNICAST_FLOOD:
			f.unicastFlood = on
		case nl.IFLA_BRPORT_BCAST_FLOOD:
			f.bcastFlood = on
		case nl.IFLA_BRPORT_MCAST_FLOOD:
			f.mcastFlood = on
		case nl.IFLA_BRPORT_ISOLATED:
			f.isolated = on
		}
	}
	return f
}

// forever is the lifetime of addresses that do not expire.
const forever = ^uint32(0)

// address is an IP address of a device.
type address struct {
	index  int
	prefix netip.Prefix
	proto  uint8
	flags  uint32
	valid  time.Duration // until it expires; 0: for ever
}

func (a address) family() int { return family(a.prefix.Addr()) }

func (r *rtnl) addAddress(a address) error {
	return r.changeAddress(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, a)
}

// replaceAddress adds the address, or gives the one that is there a new lifetime.
func (r *rtnl) replaceAddress(a address) error {
	return r.changeAddress(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, a)
}

func (r *rtnl) delAddress(a address) error { return r.changeAddress(unix.RTM_DELADDR, 0, a) }

func (r *rtnl) changeAddress(typ, flags int, a address) error {
	req := r.request(typ, flags)
	msg := nl.NewIfAddrmsg(family(a.prefix.Addr()))
	msg.Index = uint32(a.index)
	msg.Prefixlen = uint8(a.prefix.Bits())
	req.AddData(msg)
	ip := a.prefix.Addr().AsSlice()
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, ip))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, ip))
	if typ == unix.RTM_NEWADDR {
		if a.flags != 0 {
			req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(a.flags)))
		}
		req.AddData(nl.NewRtAttr(ifaProto, []byte{a.proto}))
		if a.valid != 0 {
			// struct ifa_cacheinfo: preferred, valid, and two timestamps of the kernel
			seconds := nl.Uint32Attr(uint32(a.valid.Round(time.Second) / time.Second))
			req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, slices.Concat(seconds, seconds, make([]byte, 8))))
		}
	}
	return do(req)
}

// addresses returns those of one device, or of all with index 0.
func (r *rtnl) addresses(index int) ([]address, error) {
	return dump(func() ([]address, error) {
		req := r.request(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		msg := nl.NewIfAddrmsg(unix.AF_UNSPEC)
		msg.Index = uint32(index)
		req.AddData(msg)
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		var addrs []address
		for _, m := range msgs {
			if a, ok := parseAddress(m); ok && (index == 0 || a.index == index) {
				addrs = append(addrs, a)
			}
		}
		return addrs, err
	})
}

func parseAddress(m []byte) (a address, ok bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return a, false
	}
	bits := int(m[1])
	a.index = int(binary.NativeEndian.Uint32(m[4:8]))
	var local, addr netip.Addr
	for attr, value := range attributes(m[unix.SizeofIfAddrmsg:]) {
		switch attr {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case unix.IFA_ADDRESS:
			addr, _ = netip.AddrFromSlice(value)
		case ifaProto:
			a.proto = value[0]
		case unix.IFA_FLAGS:
			a.flags = binary.NativeEndian.Uint32(value)
		case unix.IFA_CACHEINFO:
			if seconds := binary.NativeEndian.Uint32(value[4:8]); seconds != forever {
				a.valid = time.Duration(seconds) * time.Second
			}
		}
	}
	if !local.IsValid() {
		local = addr
	}
	a.prefix = netip.PrefixFrom(local, bits)
	return a, local.IsValid()
}

// neighbour is an ARP or ND entry.
type neighbour struct {
	index int
	ip    netip.Addr
	mac   net.HardwareAddr
	state uint16
	proto uint8
}

func (r *rtnl) setNeighbour(n neighbour) error {
	return r.changeNeighbour(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, n)
}

func (r *rtnl) delNeighbour(n neighbour) error { return r.changeNeighbour(unix.RTM_DELNEIGH, 0, n) }

func (r *rtnl) changeNeighbour(typ, flags int, n neighbour) error {
	req := r.request(typ, flags)
	req.AddData(&netlink.Ndmsg{Family: uint8(family(n.ip)), Index: uint32(n.index), State: n.state})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, n.ip.AsSlice()))
	if n.mac != nil {
		req.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, n.mac))
	}
	if n.proto != 0 {
		req.AddData(nl.NewRtAttr(ndaProtocol, []byte{n.proto}))
	}
	return do(req)
}

func (r *rtnl) neighbours() ([]neighbour, error) {
	return dump(func() ([]neighbour, error) {
		req := r.request(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{})
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
		var list []neighbour
		for _, m := range msgs {
			if n, ok := parseNeighbour(m); ok {
				list = append(list, n)
			}
		}
		return list, err
	})
}

// neighbour reads one entry.
func (r *rtnl) neighbour(index int, ip netip.Addr) (n neighbour, err error) {
	req := r.request(unix.RTM_GETNEIGH, 0)
	req.AddData(&netlink.Ndmsg{Family: uint8(family(ip)), Index: uint32(index)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, ip.AsSlice()))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil {
		return n, err
	}
	for _, m := range msgs {
		if n, ok := parseNeighbour(m); ok {
			return n, nil
		}
	}
	return n, unix.ENOENT
}

func parseNeighbour(m []byte) (n neighbour, ok bool) {
	if len(m) < sizeofNdmsg || (m[0] != unix.AF_INET && m[0] != unix.AF_INET6) {
		return n, false
	}
	n.index = int(binary.NativeEndian.Uint32(m[4:8]))
	n.state = binary.NativeEndian.Uint16(m[8:10])
	for attr, value := range attributes(m[sizeofNdmsg:]) {
		switch attr {
		case netlink.NDA_DST:
			n.ip, _ = netip.AddrFromSlice(value)
		case netlink.NDA_LLADDR:
			n.mac = value
		case ndaProtocol:
			n.proto = value[0]
		}
	}
	return n, n.ip.IsValid()
}

const sizeofNdmsg = 12

// attributes walks netlink attributes; what is malformed ends the walk.
func attributes(data []byte) func(yield func(attr int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(data) >= unix.SizeofRtAttr {
			length := int(binary.NativeEndian.Uint16(data[0:2]))
			typ := int(binary.NativeEndian.Uint16(data[2:4])) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if length < unix.SizeofRtAttr || length > len(data) {
				return
			}
			if !yield(typ, data[unix.SizeofRtAttr:length:length]) {
				return
			}
			data = data[min(len(data), (length+3)&^3):]
		}
	}
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
