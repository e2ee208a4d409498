package vswitch

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
)

// SourceGuards restrict the packets that interfaces may send to the vswitch, by interface. Create
// also changes a guard, atomically. The interface need not exist: whenever it is created, it is
// guarded from its first packet.
type SourceGuards interface {
	Values[*guard.SourceGuard]
	// Drops returns the counters since the guard was created, by interface and reason, without
	// zeros.
	Drops(ctx context.Context) ([]Drop, error)
}

// Drop is the number of packets dropped for one reason.
type Drop struct {
	// Interface that received them: its logical name, or the name of a foreign device. "(node)" is
	// the node's own processes.
	Interface string
	Reason    DropReason
	Packets   uint64
}

// DropReason is the reason for dropping a packet.
type DropReason string

const (
	DropMAC         DropReason = "mac"         // foreign MAC address
	DropIPv4        DropReason = "ipv4"        // foreign IPv4 source
	DropIPv6        DropReason = "ipv6"        // foreign IPv6 source
	DropARP         DropReason = "arp"         // ARP with a foreign sender
	DropND          DropReason = "nd"          // neighbour discovery with a foreign claim
	DropConnections DropReason = "connections" // exceeds the connection limit
	DropVXLAN       DropReason = "vxlan"       // VXLAN from an unknown peer, or from a pod
	// VXLAN that the node translates: from or to a service, a host port or an external address.
	DropVXLANTranslated DropReason = "vxlan-translated"
	// VXLAN from a peer's address on another interface than the underlay's.
	DropVXLANInterface DropReason = "vxlan-interface"
	// The source is behind an interface of the vswitch, such as a pod, but another device received
	// the packet. Or an IPv6 source is the node's own, or IPv4 written as IPv6.
	DropUplink   DropReason = "uplink"
	DropLoopback DropReason = "loopback" // to an address of the node's loopback
	// DropICMP: an ICMP error about a packet that the sender did not receive, a redirect, or a path
	// MTU that the sender may not set.
	DropICMP DropReason = "icmp"
	// Packets of no connection that open none, such as resets: they would pass untranslated.
	DropInvalid DropReason = "invalid"
	// Packets of pods that the node would take out of a segment (SRv6).
	DropSegments DropReason = "segments"
	DropRanges   DropReason = "ranges" // to a load balancer's IP from outside its source ranges
)

// GuardedAddresses returns the permitted source addresses, sorted and unique: the value's addresses
// and the link-local address of its MAC.
func GuardedAddresses(g *guard.SourceGuard) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range g.GetIpAddresses() {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr)
		}
	}
	if mac, err := net.ParseMAC(g.GetMacAddress()); err == nil && len(mac) == 6 {
		addrs = append(addrs, LinkLocal([6]byte(mac)))
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// LinkLocal returns the link-local IPv6 address of a MAC address (EUI-64, RFC 4291 appendix A).
func LinkLocal(mac [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}
