package rtnl

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Attributes that the netlink package does not define.
const (
	ifaProto     = 11 // IFA_PROTO, Linux 5.18
	AttrProtocol = 12 // NDA_PROTOCOL, Linux 5.0
)

// Conn is a connection to the rtnetlink of a network namespace. It implements the requests that
// wire pods, and others that the netlink package lacks: several changes of a link at once, and
// objects marked with a protocol number. Other requests use a connection of the netlink package,
// opened when needed.
type Conn struct {
	remover *remover
	fault   Fault // of tests
	socket  *socket
	handle  handle
}

// New connects to the namespace, which must stay open until Close.
func New(ns netns.NsHandle) (*Conn, error) {
	c := &Conn{remover: newRemover(ns), handle: handle{ns: ns}}
	err := namespace.In(ns, func() (err error) {
		c.socket, err = openSocket()
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (r *Conn) Close() {
	r.remover.close()
	r.handle.close()
	r.socket.close()
}

// handle is a connection of the netlink package to a namespace. It is opened when needed, since
// each uses a socket that the Go runtime polls.
type handle struct {
	ns     netns.NsHandle
	mu     sync.Mutex
	opened *netlink.Handle
}

func (h *handle) open() (*netlink.Handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened != nil {
		return h.opened, nil
	}
	err := namespace.In(h.ns, func() (err error) {
		h.opened, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	return h.opened, err
}

func (h *handle) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened != nil {
		h.opened.Close()
	}
}

// Socket returns a socket in the namespace, for ioctl(2).
func (r *Conn) Socket() int { return r.socket.fd }

// DeleteLink deletes a device; ENODEV if it does not exist.
func (r *Conn) DeleteLink(index int) error {
	return r.try("DeleteLink", func() error { return r.remover.remove(index) })
}

// Request starts a request for Execute or Do.
func (r *Conn) Request(typ, flags int) *nl.NetlinkRequest {
	return &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: uint16(typ), Flags: uint16(unix.NLM_F_REQUEST | flags)},
	}
}

// Do sends a request that is only acknowledged.
func (r *Conn) Do(req *nl.NetlinkRequest) error {
	req.Flags |= unix.NLM_F_ACK
	return r.try("Do", func() error {
		_, err := r.socket.ask(req, 0)
		return err
	})
}

// Execute sends a request and returns the answers of a type.
func (r *Conn) Execute(req *nl.NetlinkRequest, answers uint16) ([][]byte, error) {
	return ask(r, "Execute", func() ([][]byte, error) { return r.socket.ask(req, answers) })
}

// Dump repeats a dump that was interrupted by changes. After some attempts it returns the last
// result.
func Dump[T any](read func() ([]T, error)) ([]T, error) {
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

// PortFlags are the parameters of a bridge port.
type PortFlags struct {
	Learning, UnicastFlood, BcastFlood, McastFlood, Isolated bool
}

// Port is a device bound to a bridge.
type Port struct {
	Index, Master int
	Flags         PortFlags
}

func (r *Conn) SetPort(index int, f PortFlags) error {
	req := r.Request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_BRIDGE)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	for attr, on := range map[int]bool{
		nl.IFLA_BRPORT_LEARNING:      f.Learning,
		nl.IFLA_BRPORT_UNICAST_FLOOD: f.UnicastFlood,
		nl.IFLA_BRPORT_BCAST_FLOOD:   f.BcastFlood,
		nl.IFLA_BRPORT_MCAST_FLOOD:   f.McastFlood,
		nl.IFLA_BRPORT_ISOLATED:      f.Isolated,
	} {
		info.AddRtAttr(attr, []byte{boolByte(on)})
	}
	req.AddData(info)
	return r.Do(req)
}

// SetVXLANLearning enables or disables MAC learning of a VXLAN device.
func (r *Conn) SetVXLANLearning(index int, on bool) error {
	req := r.Request(unix.RTM_NEWLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_VXLAN_LEARNING, []byte{boolByte(on)})
	req.AddData(info)
	return r.Do(req)
}

func (r *Conn) Ports() ([]Port, error) {
	return Dump(func() ([]Port, error) {
		req := r.Request(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		msgs, err := r.Execute(req, unix.RTM_NEWLINK)
		var ports []Port
		for _, m := range msgs {
			p := Port{Index: int(int32(binary.NativeEndian.Uint32(m[4:8])))}
			for attr, value := range nlattr.All(m[unix.SizeofIfInfomsg:]) {
				switch attr {
				case unix.IFLA_MASTER:
					p.Master = int(binary.NativeEndian.Uint32(value))
				case unix.IFLA_PROTINFO:
					p.Flags = parsePortFlags(value)
				}
			}
			if p.Master != 0 {
				ports = append(ports, p)
			}
		}
		return ports, err
	})
}

func parsePortFlags(data []byte) (f PortFlags) {
	for attr, value := range nlattr.All(data) {
		on := len(value) == 1 && value[0] != 0
		switch attr {
		case nl.IFLA_BRPORT_LEARNING:
			f.Learning = on
		case nl.IFLA_BRPORT_UNICAST_FLOOD:
			f.UnicastFlood = on
		case nl.IFLA_BRPORT_BCAST_FLOOD:
			f.BcastFlood = on
		case nl.IFLA_BRPORT_MCAST_FLOOD:
			f.McastFlood = on
		case nl.IFLA_BRPORT_ISOLATED:
			f.Isolated = on
		}
	}
	return f
}

const forever = ^uint32(0)

// Address is an IP address of a device.
type Address struct {
	Index  int
	Prefix netip.Prefix
	Proto  uint8
	Flags  uint32
	Valid  time.Duration // remaining lifetime; 0: unlimited
	// Broadcast is the broadcast address of an IPv4 address to be added; invalid: none. It is not
	// read.
	Broadcast netip.Addr
}

func (a Address) Family() int { return Family(a.Prefix.Addr()) }

func (r *Conn) AddAddress(a Address) error {
	return r.changeAddress(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, a)
}

// ReplaceAddress adds the address, or gives the existing one a new lifetime.
func (r *Conn) ReplaceAddress(a Address) error {
	return r.changeAddress(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, a)
}

func (r *Conn) DelAddress(a Address) error { return r.changeAddress(unix.RTM_DELADDR, 0, a) }

func (r *Conn) changeAddress(typ, flags int, a Address) error {
	req := r.Request(typ, flags)
	msg := nl.NewIfAddrmsg(Family(a.Prefix.Addr()))
	msg.Index = uint32(a.Index)
	msg.Prefixlen = uint8(a.Prefix.Bits())
	req.AddData(msg)
	ip := a.Prefix.Addr().AsSlice()
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, ip))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, ip))
	if typ == unix.RTM_NEWADDR {
		if a.Flags != 0 {
			req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(a.Flags)))
		}
		req.AddData(nl.NewRtAttr(ifaProto, []byte{a.Proto}))
		if a.Broadcast.IsValid() {
			req.AddData(nl.NewRtAttr(unix.IFA_BROADCAST, a.Broadcast.AsSlice()))
		}
		if a.Valid != 0 {
			// struct ifa_cacheinfo: preferred, valid, and two timestamps of the kernel
			seconds := nl.Uint32Attr(uint32(a.Valid.Round(time.Second) / time.Second))
			req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, slices.Concat(seconds, seconds, make([]byte, 8))))
		}
	}
	return r.Do(req)
}

// Addresses returns the addresses of one device, or of all with index 0.
func (r *Conn) Addresses(index int) ([]Address, error) {
	return Dump(func() ([]Address, error) {
		req := r.Request(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		msg := nl.NewIfAddrmsg(unix.AF_UNSPEC)
		msg.Index = uint32(index)
		req.AddData(msg)
		msgs, err := r.Execute(req, unix.RTM_NEWADDR)
		var addrs []Address
		for _, m := range msgs {
			if a, ok := ParseAddress(m); ok && (index == 0 || a.Index == index) {
				addrs = append(addrs, a)
			}
		}
		return addrs, err
	})
}

func ParseAddress(m []byte) (a Address, ok bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return a, false
	}
	bits := int(m[1])
	a.Index = int(binary.NativeEndian.Uint32(m[4:8]))
	var local, addr netip.Addr
	for attr, value := range nlattr.All(m[unix.SizeofIfAddrmsg:]) {
		switch attr {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case unix.IFA_ADDRESS:
			addr, _ = netip.AddrFromSlice(value)
		case ifaProto:
			a.Proto = value[0]
		case unix.IFA_FLAGS:
			a.Flags = binary.NativeEndian.Uint32(value)
		case unix.IFA_CACHEINFO:
			if seconds := binary.NativeEndian.Uint32(value[4:8]); seconds != forever {
				a.Valid = time.Duration(seconds) * time.Second
			}
		}
	}
	if !local.IsValid() {
		local = addr
	}
	a.Prefix = netip.PrefixFrom(local, bits)
	return a, local.IsValid()
}

// Neighbour is an ARP or ND entry.
type Neighbour struct {
	Index int
	Ip    netip.Addr
	Mac   net.HardwareAddr
	State uint16
	Proto uint8
}

func (r *Conn) SetNeighbour(n Neighbour) error {
	return r.changeNeighbour(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, n)
}

// AskNeighbour makes the kernel resolve a neighbour, and returns at once.
func (r *Conn) AskNeighbour(index int, ip netip.Addr) error {
	req := r.Request(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE)
	req.AddData(&netlink.Ndmsg{Family: uint8(Family(ip)), Index: uint32(index), Flags: netlink.NTF_USE})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, ip.AsSlice()))
	return r.Do(req)
}

func (r *Conn) DelNeighbour(n Neighbour) error { return r.changeNeighbour(unix.RTM_DELNEIGH, 0, n) }

func (r *Conn) changeNeighbour(typ, flags int, n Neighbour) error {
	req := r.Request(typ, flags)
	req.AddData(&netlink.Ndmsg{Family: uint8(Family(n.Ip)), Index: uint32(n.Index), State: n.State})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, n.Ip.AsSlice()))
	if n.Mac != nil {
		req.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, n.Mac))
	}
	if n.Proto != 0 {
		req.AddData(nl.NewRtAttr(AttrProtocol, []byte{n.Proto}))
	}
	return r.Do(req)
}

func (r *Conn) Neighbours() ([]Neighbour, error) {
	return Dump(func() ([]Neighbour, error) {
		req := r.Request(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{})
		msgs, err := r.Execute(req, unix.RTM_NEWNEIGH)
		var list []Neighbour
		for _, m := range msgs {
			if n, ok := ParseNeighbour(m); ok {
				list = append(list, n)
			}
		}
		return list, err
	})
}

// Neighbour reads one entry; ENOENT if it does not exist.
func (r *Conn) Neighbour(index int, ip netip.Addr) (n Neighbour, err error) {
	req := r.Request(unix.RTM_GETNEIGH, 0)
	req.AddData(&netlink.Ndmsg{Family: uint8(Family(ip)), Index: uint32(index)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, ip.AsSlice()))
	msgs, err := r.Execute(req, unix.RTM_NEWNEIGH)
	if err != nil {
		return n, err
	}
	for _, m := range msgs {
		if n, ok := ParseNeighbour(m); ok {
			return n, nil
		}
	}
	return n, unix.ENOENT
}

func ParseNeighbour(m []byte) (n Neighbour, ok bool) {
	if len(m) < sizeofNdmsg || (m[0] != unix.AF_INET && m[0] != unix.AF_INET6) {
		return n, false
	}
	n.Index = int(binary.NativeEndian.Uint32(m[4:8]))
	n.State = binary.NativeEndian.Uint16(m[8:10])
	for attr, value := range nlattr.All(m[sizeofNdmsg:]) {
		switch attr {
		case netlink.NDA_DST:
			n.Ip, _ = netip.AddrFromSlice(value)
		case netlink.NDA_LLADDR:
			n.Mac = value
		case AttrProtocol:
			n.Proto = value[0]
		}
	}
	return n, n.Ip.IsValid()
}

const sizeofNdmsg = 12

func Family(ip netip.Addr) int {
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
