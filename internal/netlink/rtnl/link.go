package rtnl

import (
	"net"
	"os"
	"slices"
	"unsafe"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// LinkChange is a set of changes to a link; zero fields change nothing.
type LinkChange struct {
	// NetNS is an open network namespace to move the link to first. The move removes its addresses
	// and routes and sets it down, unless Up.
	NetNS      netns.NsHandle
	Name       string
	Alias      string
	ClearAlias bool
	Up         bool
	Down       bool
	Mtu        uint32
	Mac        net.HardwareAddr
	Master     *int    // index; 0: none
	Group      *uint32 // IFLA_GROUP
}

// SetLink applies all changes in one request. If one fails, the kernel may have applied earlier
// ones.
func (r *Conn) SetLink(index int, c LinkChange) error {
	req := r.linkRequest(index, c)
	if c.Name != "" {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(c.Name)))
	}
	return r.Do(req)
}

// SetLinkNamed is SetLink for a device by name, which it keeps.
func (r *Conn) SetLinkNamed(name string, c LinkChange) error {
	req := r.linkRequest(0, c)
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	return r.Do(req)
}

// SetAndRead is SetLinkNamed and LinkByName in one request.
//
// It also reads the device before the change. A read makes the kernel run the pending work of a
// device made without a carrier. That is fast while the device is down; once it is up, all other
// requests wait until it has stopped sending.
func (r *Conn) SetAndRead(name string, c LinkChange) (link netlink.Link, err error) {
	named := nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))
	set := r.linkRequest(0, c)
	set.Flags |= unix.NLM_F_ACK
	set.AddData(named)
	get := func() *nl.NetlinkRequest {
		req := r.Request(unix.RTM_GETLINK, 0)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(named)
		req.AddData(withoutStatistics())
		return req
	}
	err = r.try("Do", func() error {
		var answer []byte
		errs := r.socket.exchange([]*nl.NetlinkRequest{get(), set, get()}, func(_ int, _ uint16, payload []byte) { answer = slices.Clone(payload) })
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		link, err = netlink.LinkDeserialize(nil, answer)
		return err
	})
	return link, err
}

func (r *Conn) linkRequest(index int, c LinkChange) *nl.NetlinkRequest {
	req := r.Request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	if c.Up || c.Down {
		msg.Change = unix.IFF_UP
	}
	if c.Up {
		msg.Flags = unix.IFF_UP
	}
	req.AddData(msg)
	if c.NetNS != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(c.NetNS))))
	}
	if c.Alias != "" || c.ClearAlias {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(c.Alias)))
	}
	if c.Mtu != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(c.Mtu)))
	}
	if c.Mac != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, c.Mac))
	}
	if c.Master != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(*c.Master))))
	}
	if c.Group != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(*c.Group)))
	}
	return req
}

// Links returns all devices without statistics, the largest part of a dump.
func (r *Conn) Links() ([]netlink.Link, error) {
	return Dump(func() ([]netlink.Link, error) { return r.listLinks("Execute", skipStatistics) })
}

// LinkList returns all devices with statistics; see Links.
func (r *Conn) LinkList() ([]netlink.Link, error) { return r.listLinks("LinkList", 0) }

func (r *Conn) listLinks(call string, extMask uint32) ([]netlink.Link, error) {
	return ask(r, call, func() ([]netlink.Link, error) {
		req := r.Request(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		if extMask != 0 {
			req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(extMask)))
		}
		msgs, err := r.socket.ask(req, unix.RTM_NEWLINK)
		links := make([]netlink.Link, 0, len(msgs))
		for _, m := range msgs {
			link, err := netlink.LinkDeserialize(nil, m)
			if err != nil {
				return nil, err
			}
			links = append(links, link)
		}
		return links, err
	})
}

// Routes returns the routes that match filter in the fields of mask (netlink.RT_FILTER_…); without
// RT_FILTER_TABLE, only of the main table.
func (r *Conn) Routes(family int, filter *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return Dump(func() ([]netlink.Route, error) { return r.RouteListFiltered(family, filter, mask) })
}

// NewLink is a device to be added.
type NewLink struct {
	Name, Kind string
	Group      uint32
	Mtu        uint32           // 0: the kernel's choice
	Mac        net.HardwareAddr // nil: the kernel's choice
	Lower      int              // index of the lower device; 0: none
	// OneQueue creates one queue per direction. A veth uses one in any case, but by default the
	// kernel first creates one per processor and waits for the surplus to be unused.
	OneQueue bool
	Options  []LinkOption
}

// LinkIdentity identifies a device.
type LinkIdentity struct{ Name, Alias string }

// skipStatistics is RTEXT_FILTER_SKIP_STATS.
const skipStatistics = 1 << 3

// withoutStatistics makes the kernel omit statistics, the largest part of its answer.
func withoutStatistics() *nl.RtAttr {
	return nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics))
}

// LinkIdentity reads the identity of a device by index; ENODEV if it does not exist.
func (r *Conn) LinkIdentity(index int) (id LinkIdentity, err error) {
	req := r.Request(unix.RTM_GETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	req.AddData(withoutStatistics())
	answers, err := r.Execute(req, unix.RTM_NEWLINK)
	for _, m := range answers {
		if len(m) < unix.SizeofIfInfomsg {
			continue
		}
		for attr, value := range nlattr.All(m[unix.SizeofIfInfomsg:]) {
			switch attr {
			case unix.IFLA_IFNAME:
				id.Name = unix.ByteSliceToString(value)
			case unix.IFLA_IFALIAS:
				id.Alias = unix.ByteSliceToString(value)
			}
		}
	}
	return id, err
}

// LinkName returns the name of a device by index; ENODEV if it does not exist. It is 20 times as
// fast as LinkIdentity: the kernel neither waits for pending changes nor describes the device.
func (r *Conn) LinkName(index int) (string, error) {
	return ask(r, "LinkName", func() (string, error) {
		req := ifreq{index: int32(index)}
		err := r.ioctl(unix.SIOCGIFNAME, &req)
		return unix.ByteSliceToString(req.name[:]), err
	})
}

// LinkIndex returns the index of a device by name; ENODEV if it does not exist.
func (r *Conn) LinkIndex(name string) (int, error) {
	if len(name) >= unix.IFNAMSIZ {
		return 0, unix.ENODEV
	}
	return ask(r, "LinkIndex", func() (int, error) {
		var req ifreq
		copy(req.name[:], name)
		err := r.ioctl(unix.SIOCGIFINDEX, &req)
		return int(req.index), err
	})
}

// ifreq is struct ifreq of linux/if.h.
type ifreq struct {
	name  [unix.IFNAMSIZ]byte
	index int32
	_     [20]byte
}

func (r *Conn) ioctl(request uintptr, req *ifreq) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(r.socket.fd), request, uintptr(unsafe.Pointer(req))); errno != 0 {
		return errno
	}
	return nil
}

// LinkByName reads a device by name, without statistics; ENODEV if it does not exist.
func (r *Conn) LinkByName(name string) (netlink.Link, error) {
	attr := unix.IFLA_IFNAME
	if len(name) >= unix.IFNAMSIZ {
		attr = unix.IFLA_ALT_IFNAME
	}
	return r.link("LinkByName", 0, nl.NewRtAttr(attr, nl.ZeroTerminated(name)))
}

// LinkByIndex reads a device by index, without statistics; ENODEV if it does not exist.
func (r *Conn) LinkByIndex(index int) (netlink.Link, error) { return r.link("LinkByIndex", index) }

func (r *Conn) link(call string, index int, by ...nl.NetlinkRequestData) (netlink.Link, error) {
	return ask(r, call, func() (netlink.Link, error) {
		req := r.Request(unix.RTM_GETLINK, 0)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(index)
		req.AddData(msg)
		for _, attr := range by {
			req.AddData(attr)
		}
		req.AddData(withoutStatistics())
		answers, err := r.socket.ask(req, unix.RTM_NEWLINK)
		if err == nil && len(answers) != 1 {
			err = unix.ENODEV
		}
		if err != nil {
			return nil, err
		}
		return netlink.LinkDeserialize(nil, answers[0])
	})
}

// LinkByAlias reads a device by alias; ENODEV if it does not exist.
func (r *Conn) LinkByAlias(alias string) (netlink.Link, error) {
	links, err := r.Links()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Attrs().Alias == alias {
			return link, nil
		}
	}
	return nil, unix.ENODEV
}

// LinkOption is an attribute of a kind of device.
type LinkOption struct {
	Attr  int
	Value []byte
}

// vethInfoPeer is VETH_INFO_PEER.
const vethInfoPeer = 1

// VethPeer describes the peer of a veth with one queue (NewLink.OneQueue): its name, its MTU (0:
// the kernel's choice), and its network namespace (an open file; nil: the same).
func VethPeer(name string, mtu uint32, ns *os.File) LinkOption {
	attrs := append(oneQueue(), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	if mtu != 0 {
		attrs = append(attrs, nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(mtu)))
	}
	if ns != nil {
		attrs = append(attrs, nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(ns.Fd()))))
	}
	peer := nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize()
	for _, attr := range attrs {
		peer = append(peer, attr.Serialize()...)
	}
	return LinkOption{Attr: vethInfoPeer, Value: peer}
}

func oneQueue() []*nl.RtAttr {
	return []*nl.RtAttr{nl.NewRtAttr(unix.IFLA_NUM_TX_QUEUES, nl.Uint32Attr(1)), nl.NewRtAttr(unix.IFLA_NUM_RX_QUEUES, nl.Uint32Attr(1))}
}

// AddLink adds a device, down and without an alias.
func (r *Conn) AddLink(l NewLink) error {
	req := r.Request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	l.Write(req)
	return r.Do(req)
}

func (l NewLink) Write(req *nl.NetlinkRequest) {
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Name)))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(l.Group)))
	if l.Mtu != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(l.Mtu)))
	}
	if l.Mac != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, l.Mac))
	}
	if l.Lower != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(l.Lower))))
	}
	if l.OneQueue {
		for _, attr := range oneQueue() {
			req.AddData(attr)
		}
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.ZeroTerminated(l.Kind))
	if len(l.Options) > 0 {
		data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
		for _, o := range l.Options {
			data.AddRtAttr(o.Attr, o.Value)
		}
	}
	req.AddData(info)
}
