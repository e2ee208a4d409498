// Package conntrack deletes entries of the kernel's connection tracking that no longer match the
// configuration. Without that, connections of clients that keep their source port, such as DNS,
// would keep their old translation or verdict.
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

// Destination selects connections by their original destination. Protocol 0 matches all but TCP;
// port 0 matches all ports.
type Destination struct {
	Addr     netip.Addr
	Protocol uint8
	Port     uint16
}

// Stale holds the connections to delete: original destinations, each with the endpoints that
// answer. Without endpoints, any endpoint matches.
//
// After an entry of a TCP connection is deleted, the next packet of the client is translated like a
// new connection, and its new receiver answers with a reset.
type Stale map[Destination][]netip.AddrPort

// Add adds connections answered by an endpoint.
func (s Stale) Add(to Destination, answerer netip.AddrPort) {
	if !slices.Contains(s[to], answerer) {
		s[to] = append(s[to], answerer)
	}
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
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

// Forget deletes the connections in a network namespace. It lists all connections of the IP
// versions concerned.
func (s Stale) Forget(ns netns.NsHandle) error {
	return forget(ns, s, func(yield func(netip.Addr) bool) {
		for to := range s {
			if !yield(to.Addr) {
				return
			}
		}
	})
}

// ForgetMatching deletes the matching connections of one IP version in a network namespace.
func ForgetMatching(ns netns.NsHandle, match netlink.CustomConntrackFilter, ipv6 bool) error {
	version := netip.IPv4Unspecified()
	if ipv6 {
		version = netip.IPv6Unspecified()
	}
	return forget(ns, match, func(yield func(netip.Addr) bool) { yield(version) })
}

// forget deletes the matching connections. It lists the IP versions of the addresses.
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
