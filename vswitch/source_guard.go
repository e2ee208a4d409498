package vswitch

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
)

// SourceGuards restrict the packets that interfaces may receive, by interface. Create also changes
// a guard, atomically. The interface need not exist: once it does, and whenever it is created
// again, it is guarded from its first packet on.
type SourceGuards interface {
	Values[*guard.SourceGuard]
	// Drops returns what has been dropped, by interface and reason, since the guard
	// exists; reasons that have not occurred are left out.
	Drops(ctx context.Context) ([]Drop, error)
}

// Drop is a number of packets that were dropped for one reason.
type Drop struct {
	// Interface that received them: its logical name, or the name of the device if it
	// is not one of the vswitch's. "(node)" stands for the node's own processes.
	Interface string
	Reason    DropReason
	Packets   uint64
}

// DropReason says what was wrong with a packet.
type DropReason string

// The reasons.
const (
	DropMAC         DropReason = "mac"         // foreign MAC address
	DropIPv4        DropReason = "ipv4"        // foreign IPv4 source
	DropIPv6        DropReason = "ipv6"        // foreign IPv6 source
	DropARP         DropReason = "arp"         // ARP with a foreign sender
	DropND          DropReason = "nd"          // neighbour discovery that claims what is foreign
	DropConnections DropReason = "connections" // one connection too many
	DropVXLAN       DropReason = "vxlan"       // VXLAN from an unknown peer, or from a pod
	// VXLAN that the node translates: from or to a service, a host port or an external address.
	DropVXLANTranslated DropReason = "vxlan-translated"
	// VXLAN that claims to be from a peer, and came by another interface than the underlay's.
	DropVXLANInterface DropReason = "vxlan-interface"
	// A source that the node reaches by an interface of the vswitch, such as a pod, and another device that received the packet.
	DropUplink   DropReason = "uplink"
	DropLoopback DropReason = "loopback" // to an address of the node's loopback
	// DropICMP: an ICMP error about a packet that the sender did not receive, a redirect, or a path MTU that the sender may
	// not set.
	DropICMP DropReason = "icmp"
	// Packets that belong to no connection and open none, such as resets: they would pass untranslated.
	DropInvalid DropReason = "invalid"
	// Packets of pods that the node would take out of a segment (SRv6).
	DropSegments DropReason = "segments"
	DropRanges   DropReason = "ranges" // to a load balancer's IP from outside of its source ranges
)

// GuardedAddresses returns the addresses that packets may be sent from, sorted and
// each once: those of the value and the link-local one of its MAC address.
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

// LinkLocal is the link-local IPv6 address that is formed from a MAC address (EUI-64,
// RFC 4291 appendix A).
func LinkLocal(mac [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}
