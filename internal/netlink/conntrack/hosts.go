package conntrack

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Hosts matches all connections of some addresses. Delete them before an address gets a new owner.
type Hosts []netip.Addr

// MatchConntrackFlow implements netlink.CustomConntrackFilter: a host is the client or the
// endpoint.
func (h Hosts) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	opener, _ := netip.AddrFromSlice(c.Forward.SrcIP)
	answerer, _ := netip.AddrFromSlice(c.Reverse.SrcIP)
	return slices.Contains(h, opener.Unmap()) || slices.Contains(h, answerer.Unmap())
}

// Forget deletes all connections of the hosts in a network namespace. It lists all connections of
// the IP versions concerned.
func (h Hosts) Forget(ns netns.NsHandle) error { return forget(ns, h, slices.Values(h)) }
