package podguard

import (
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// IPv6 sources that only forgers send. The kernel drops IPv4 packets that arrive with a source of
// the node itself, but not IPv6 packets. A socket for both IP versions takes an IPv4 address written
// as IPv6 (::ffff:10.1.1.2) for the IPv4 client, 127.0.0.1 included.

const (
	sourceAt4 = 12 // in the IPv4 header
	sourceAt  = 8  // in the IPv6 header
	targetAt  = 24
)

// ifKind is the kind of the input device, which the library does not name.
const ifKind expr.MetaKey = 26

func kind(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}

func sourceRules() []rule {
	drop := counted(dropped[vswitch.DropUplink])
	from6 := func(length uint32, prefix ...byte) words {
		return join(network(sourceAt, length, scratch), equals(prefix...))
	}
	mapped, compatible := append(make([]byte, 10), 0xff, 0xff), make([]byte, 12)
	// The unspecified address asks for duplicates, and ::1 is the node's own.
	beyondLoopback := join(network(sourceAt+12, 4, scratch), of(&expr.Cmp{Op: expr.CmpOpGt, Register: scratch, Data: []byte{0, 0, 0, 1}}))
	ofNode := func(kind uint32) words {
		return join(ofFamily(unix.NFPROTO_IPV6), fromOthers(), typeOf(true), equals(native32(kind)...), goTo(chainOfNode))
	}
	return []rule{
		{chainMapped, "IPv4 written as IPv6", join(from6(12, mapped...), drop)},
		{chainMapped, "IPv4-compatible IPv6", join(from6(12, compatible...), beyondLoopback, drop)},
		// br_netfilter would pass frames of our bridges to conntrack a second time. Replies of endpoints
		// through the overlay would look like new connections from the service to the client, and get
		// another source port, because the real connection has the original one. The rule applies even
		// while another proxy translates services: such connections would not survive the switch.
		{chainBridge, "by a guarded device", join(fromDevice(), inSet(guarded), goTo(chainGuarded))},
		{chainBridge, "frames of bridges", of(&expr.Notrack{})},
		{chainBridge, "IPv6", join(ofFamily(unix.NFPROTO_IPV6), jump(chainMapped))},
		{chainBridge, "any", accept()},
		// The other rules, and those for neighbours, apply to packets from other devices. They look up
		// routes, which most packets skip.
		{chainSources, "IPv6 by another device", join(ofFamily(unix.NFPROTO_IPV6), jump(chainMapped))},
		{chainSources, "from the end of an IPv4 tunnel", join(ofFamily(unix.NFPROTO_IPV4), network(sourceAt4, 4, first), inSet(ends4), goTo(chainEnd))},
		{chainSources, "from the end of an IPv6 tunnel", join(ofFamily(unix.NFPROTO_IPV6), network(sourceAt, 16, first), inSet(ends6), jump(chainEnd))},
		{chainSources, "from a pod, by another device", join(fromOthers(), viaVSwitch(), goTo(chainUplink))},
		{chainSources, "from the node itself, by another device", ofNode(unix.RTN_LOCAL)},
		{chainSources, "from the node as a router, by another device", ofNode(unix.RTN_ANYCAST)},
		// fe80::/10 is not routed, and devices may share such an address. The kernel returns what the
		// node sends to groups, and what it sends to itself within a VRF. Another host that has the
		// address says so by neighbour discovery.
		{chainOfNode, "link-local", join(firstBits10(sourceAt), equals(0xfe, 0x80), accept())},
		{chainOfNode, "to a group", join(network(targetAt, 1, scratch), equals(0xff), accept())},
		{chainOfNode, "within a VRF", join(meta(ifKind, scratch), equals(kind("vrf")...), accept())},
		{chainOfNode, "neighbour discovery", join(ofProtocol(unix.IPPROTO_ICMPV6), discovery(), accept())},
		{chainOfNode, "anything else", drop},
	}
}
