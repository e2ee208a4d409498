package sockets

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Receiver is a socket that receives from any peer: a TCP or SCTP listener, or an unconnected UDP
// socket, including the kernel's tunnel sockets.
type Receiver struct {
	// Protocol is unix.IPPROTO_TCP, IPPROTO_UDP or IPPROTO_SCTP.
	Protocol byte
	// Local may have an unspecified address: the socket has the port on all addresses of that IP
	// version. A socket for both IP versions is returned once for each.
	Local netip.AddrPort
}

const (
	attributesAt = answerHead + identity + 20 // of an answer: after a timer, two queues, the user and the inode
	skV6Only     = 11                         // INET_DIAG_SKV6ONLY
)

// Receivers returns the receivers in a network namespace (none: of the calling thread).
func Receivers(ns netns.NsHandle) (list []Receiver, err error) {
	err = in(ns, func(s *nl.NetlinkSocket) error {
		for protocol, states := range map[byte]uint32{
			unix.IPPROTO_TCP: 1 << unix.BPF_TCP_LISTEN, unix.IPPROTO_SCTP: 1 << unix.BPF_TCP_LISTEN, unix.IPPROTO_UDP: 1 << unix.BPF_TCP_CLOSE,
		} {
			for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
				if err := call(s, nl.SOCK_DIAG_BY_FAMILY, request(family, protocol, states), func(answer []byte) {
					list = append(list, receiversOf(protocol, answer)...)
				}); err != nil {
					return fmt.Errorf("listing sockets of protocol %d: %w", protocol, err)
				}
			}
		}
		return nil
	})
	return list, err
}

func receiversOf(protocol byte, answer []byte) []Receiver {
	if len(answer) < answerHead+identity {
		return nil
	}
	c := connectionOf(answer)
	if c.Local.Port() == 0 || protocol == unix.IPPROTO_UDP && c.Remote.Port() != 0 {
		return nil
	}
	list := []Receiver{{protocol, c.Local}}
	if answer[0] == unix.AF_INET6 && c.Local.Addr() == netip.IPv6Unspecified() && !v6Only(answer) {
		list = append(list, Receiver{protocol, netip.AddrPortFrom(netip.IPv4Unspecified(), c.Local.Port())})
	}
	return list
}

// v6Only reports whether an IPv6 socket does not receive over IPv4.
func v6Only(answer []byte) bool {
	if len(answer) < attributesAt {
		return false
	}
	for attribute, value := range nlattr.All(answer[attributesAt:]) {
		if attribute == skV6Only && len(value) > 0 {
			return value[0] != 0
		}
	}
	return false
}
