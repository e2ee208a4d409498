// Package conntrack has the kernel forget connections that it would go on treating as they began, though something else
// is to become of them now. Clients that keep their source port would otherwise never notice.
package conntrack

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Destination is what clients send to. Without a protocol: all but TCP; without a port: all ports.
type Destination struct {
	Addr     netip.Addr
	Protocol uint8
	Port     uint16
}

// Stale are connections to forget: what clients send to, and who answers. Without answerers it does not matter who.
//
// Once a TCP connection has been forgotten, the client's next packet counts as a new connection, is translated again, and
// is answered with a reset by its new receiver.
type Stale map[Destination][]netip.AddrPort

// Add adds connections that somebody answers.
func (s Stale) Add(to Destination, answerer netip.AddrPort) {
	if !slices.Contains(s[to], answerer) {
		s[to] = append(s[to], answerer)
	}
}

// MatchConntrackFlow reports whether a connection is to be forgotten.
func (s Stale) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	to, _ := netip.AddrFromSlice(c.Forward.DstIP)
	answerer, _ := netip.AddrFromSlice(c.Reverse.SrcIP)
	to, answerer = to.Unmap(), answerer.Unmap()
	keys := []Destination{{to, c.Forward.Protocol, c.Forward.DstPort}, {to, c.Forward.Protocol, 0}, {to, 0, 0}}
	if c.Forward.Protocol == unix.IPPROTO_TCP {
		keys = keys[:1]
	}
	for _, key := range keys {
		answerers, stale := s[key]
		port := c.Reverse.SrcPort
		if key.Port == 0 {
			port = 0
		}
		if stale && (len(answerers) == 0 || slices.Contains(answerers, netip.AddrPortFrom(answerer, port))) {
			return true
		}
	}
	return false
}

// Forget has the kernel forget them in a network namespace. It lists the connections of the IP versions that are concerned.
func (s Stale) Forget(ns netns.NsHandle) error {
	return forget(ns, s, func(yield func(netip.Addr) bool) {
		for to := range s {
			if !yield(to.Addr) {
				return
			}
		}
	})
}

// ForgetMatching has the kernel forget the connections that match in a network namespace. It lists those of an IP version.
func ForgetMatching(ns netns.NsHandle, match netlink.CustomConntrackFilter, ipv6 bool) error {
	version := netip.IPv4Unspecified()
	if ipv6 {
		version = netip.IPv6Unspecified()
	}
	return forget(ns, match, func(yield func(netip.Addr) bool) { yield(version) })
}

// forget has the kernel forget the connections that match, of the IP versions that the addresses have.
func forget(ns netns.NsHandle, match netlink.CustomConntrackFilter, addrs iter.Seq[netip.Addr]) error {
	families := map[netlink.InetFamily]bool{}
	for addr := range addrs {
		family := netlink.InetFamily(unix.AF_INET)
		if addr.Is6() {
			family = unix.AF_INET6
		}
		families[family] = true
	}
	if len(families) == 0 {
		return nil
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer h.Close()
	var errs []error
	for family := range families {
		_, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, family, match)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
