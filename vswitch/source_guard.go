package vswitch

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// SourceGuardDescriptor is the name of the descriptor of source guards.
const SourceGuardDescriptor = "contiv-source-guard"

// SourceGuards restrict what interfaces may receive, by interface. Create also changes
// a guard, at once: no packet meets half of it. The interface need not exist. Once it
// does, it is guarded from its first packet on; and when it is made anew.
type SourceGuards interface {
	Values[*guard.SourceGuard]
	// Drops returns what has been dropped, by interface and reason, since the guard
	// exists; reasons that have not occurred are left out.
	Drops(ctx context.Context) ([]Drop, error)
}

// Drop is a number of packets that were dropped for one reason.
type Drop struct {
	// Interface that received them: its logical name, or the name of the device if it
	// is not one of the vswitch's.
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
	DropVXLAN       DropReason = "vxlan"       // VXLAN from somebody who is no peer, or from a pod
)

// sourceGuardDescriptor handles config/contiv/guard/v1/source/{interface}.
func sourceGuardDescriptor() kvscheduler.Descriptor[*guard.SourceGuard, noMeta] {
	return kvscheduler.Descriptor[*guard.SourceGuard, noMeta]{
		Name:       SourceGuardDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.SourceGuard.KeyPrefix()},
		NB:         true,
		Validate:   func(_ string, g *guard.SourceGuard) error { return validateSourceGuard(g) },
		Equivalent: func(_ string, a, b *guard.SourceGuard) bool { return equivalentGuards(a, b) },
		// A guard of another device is another guard.
		UpdateWithRecreate: func(_ string, old, new *guard.SourceGuard, _ noMeta) bool {
			return old.GetHostIfName() != new.GetHostIfName()
		},
	}
}

func validateSourceGuard(g *guard.SourceGuard) error {
	switch mac, err := net.ParseMAC(g.GetMacAddress()); {
	case g.GetInterface() == "":
		return invalid("interface", "name the interface that is to be guarded")
	case err != nil || len(mac) != 6:
		return validMAC("mac_address", g.GetMacAddress())
	case mac[0]&1 != 0:
		return invalid("mac_address", "%s is the address of a group: nobody sends from it", g.GetMacAddress())
	}
	if name := g.GetHostIfName(); len(name) > 15 || name == "." || name == ".." ||
		strings.ContainsFunc(name, func(c rune) bool { return c == '/' || c == ':' || unicode.IsSpace(c) || unicode.IsControl(c) }) {
		return invalid("host_if_name", "%.80q is no name of a Linux device: use at most 15 bytes without slash, colon, space and control characters", name)
	}
	for _, text := range g.GetIpAddresses() {
		if err := validAddr("ip_addresses", text); err != nil {
			return err
		}
		addr := netip.MustParseAddr(text)
		if addr.Zone() != "" || addr.Is4In6() || addr.IsMulticast() || addr.IsUnspecified() || addr.IsLoopback() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return invalid("ip_addresses", "%s is no address that packets are sent from: use one that is, such as 10.1.1.2 or fd10:1::2", text)
		}
	}
	return nil
}

func equivalentGuards(a, b *guard.SourceGuard) bool {
	return a.GetInterface() == b.GetInterface() && a.GetHostIfName() == b.GetHostIfName() && sameMACText(a.GetMacAddress(), b.GetMacAddress()) &&
		a.GetMaxConnections() == b.GetMaxConnections() && slices.Equal(GuardedAddresses(a), GuardedAddresses(b))
}

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
