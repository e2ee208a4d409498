package conntrack

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Hosts are addresses. A host that is given one of them has none of the former's connections once those are forgotten: nobody can
// answer what it never asked.
type Hosts []netip.Addr

// MatchConntrackFlow reports whether one of the hosts opened a connection, or answers.
func (h Hosts) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	opener, _ := netip.AddrFromSlice(c.Forward.SrcIP)
	answerer, _ := netip.AddrFromSlice(c.Reverse.SrcIP)
	return slices.Contains(h, opener.Unmap()) || slices.Contains(h, answerer.Unmap())
}

// Forget has the kernel forget all their connections in a network namespace. It lists the connections of the IP versions that are
// concerned.
func (h Hosts) Forget(ns netns.NsHandle) error { return forget(ns, h, slices.Values(h)) }
