package rtnl

import (
	"encoding/binary"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Multicast groups of Netconf events (linux/rtnetlink.h).
const (
	GroupIPv4Netconf = 24 // RTNLGRP_IPV4_NETCONF
	GroupIPv6Netconf = 25 // RTNLGRP_IPV6_NETCONF
)

// AllDevices is the Index of settings for all devices, such as net.ipv4.conf.all.
const AllDevices = -1

// Netconf holds some sysctls of a device for one IP version.
type Netconf struct {
	Family     int
	Index      int
	Forwarding Switch
}

// Switch is a setting that may be missing in a message.
type Switch int

const (
	Unset Switch = iota
	Off
	On
)

// Netconfs returns the settings of all devices.
func (r *Conn) Netconfs(family int) ([]Netconf, error) {
	return Dump(func() ([]Netconf, error) {
		req := r.Request(unix.RTM_GETNETCONF, unix.NLM_F_DUMP)
		req.AddData(netconfHeader(family))
		msgs, err := r.Execute(req, unix.RTM_NEWNETCONF)
		var list []Netconf
		for _, m := range msgs {
			if c, ok := ParseNetconf(m); ok {
				list = append(list, c)
			}
		}
		return list, err
	})
}

const sizeofNetconf = 4

// Attributes of linux/netconf.h.
const (
	netconfIndex      = 1 // NETCONFA_IFINDEX
	netconfForwarding = 2 // NETCONFA_FORWARDING
)

type netconfHeader int

func (h netconfHeader) Len() int { return sizeofNetconf }

func (h netconfHeader) Serialize() []byte { return []byte{byte(h), 0, 0, 0} }

var _ nl.NetlinkRequestData = netconfHeader(0)

// ParseNetconf decodes the payload of RTM_NEWNETCONF.
func ParseNetconf(m []byte) (c Netconf, ok bool) {
	if len(m) < sizeofNetconf {
		return c, false
	}
	c.Family = int(m[0])
	for attr, value := range nlattr.All(m[sizeofNetconf:]) {
		if len(value) != 4 {
			continue
		}
		switch attr {
		case netconfIndex:
			c.Index, ok = int(int32(binary.NativeEndian.Uint32(value))), true
		case netconfForwarding:
			c.Forwarding = On
			if binary.NativeEndian.Uint32(value) == 0 {
				c.Forwarding = Off
			}
		}
	}
	return c, ok
}
