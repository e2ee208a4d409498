package rtnl

import (
	"net"
	"os"

	"github.com/contiv/contiv/netlink/nlattr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// NewLink is a device to be added.
type NewLink struct {
	Name, Kind string
	Group      uint32
	Mtu        uint32           // 0: the kernel's choice
	Mac        net.HardwareAddr // nil: the kernel's choice
	Lower      int              // index of the device below, 0: none
	Options    []LinkOption
}

// LinkIdentity is what a device is known by.
type LinkIdentity struct{ Name, Alias string }

// skipStatistics is RTEXT_FILTER_SKIP_STATS: counters are most of what the kernel tells of
// a device.
const skipStatistics = 1 << 3

// LinkIdentity reads what the device with an index is known by; ENODEV if there is none.
func (r *Conn) LinkIdentity(index int) (id LinkIdentity, err error) {
	req := r.Request(unix.RTM_GETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
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

// LinkOption is a parameter of a kind of device.
type LinkOption struct {
	Attr  int
	Value []byte
}

// vethInfoPeer is the attribute of the other end of a veth pair (VETH_INFO_PEER).
const vethInfoPeer = 1

// VethPeer describes the other end of a device of the kind "veth": its name, its MTU (0: the
// kernel's choice), and the network namespace it is made in (an open file; nil: the same).
func VethPeer(name string, mtu uint32, ns *os.File) LinkOption {
	attrs := []*nl.RtAttr{nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))}
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
