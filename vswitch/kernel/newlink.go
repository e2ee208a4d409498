package kernel

import (
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// newLink is a device to be added.
type newLink struct {
	name, kind string
	mtu        uint32           // 0: the kernel's choice
	mac        net.HardwareAddr // nil: the kernel's choice
	lower      int              // index of the device below, 0: none
	options    []linkOption
}

// linkOption is a parameter of a kind of device.
type linkOption struct {
	attr  int
	value []byte
}

// addLink adds a device of ours, down and unmarked but for its group.
func (r *rtnl) addLink(l newLink) error {
	req := r.request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	l.write(req)
	return do(req)
}

func (l newLink) write(req *nl.NetlinkRequest) {
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.name)))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(deviceGroup)))
	if l.mtu != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(l.mtu)))
	}
	if l.mac != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, l.mac))
	}
	if l.lower != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(l.lower))))
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.ZeroTerminated(l.kind))
	if len(l.options) > 0 {
		data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
		for _, o := range l.options {
			data.AddRtAttr(o.attr, o.value)
		}
	}
	req.AddData(info)
}
