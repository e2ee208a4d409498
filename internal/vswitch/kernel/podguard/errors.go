package podguard

import (
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Rules for ICMP errors from vswitch devices. Connection tracking finds the connection of the
// quoted packet. The rules apply before NAT, so the addresses are the ones that the sender
// received.
//
//	guarded device    quotes no packet to an address of the pod? drop
//	                  redirect? drop
//	                  path MTU of a translated connection, or too small? drop
//	other devices     redirect or path MTU: no connection, too small, or between tunnel ends? drop
//	of ours
//	to this node      path MTU to a tunnel end, from our devices or about anything but a known TCP
//	                  connection? drop
//
// A node that translates forwards errors to its clients: the path MTU of a node port at a tunnel
// end concerns hosts outside, but must not reach other nodes.
//
// The kernel accepts the path MTU of any host that quotes a packet of UDP or ICMP, but of TCP only
// if the sender knows the sequence number. Nodes send VXLAN over IPv4 without DF, and mtuSize
// suits the network between the nodes, so tunnels need no learned path MTU.
//
// A path MTU applies to an address. For a translated connection, that is the address of a node or
// service, which other pods use, too. So a pod cannot change the path MTU of translated
// connections.

type icmpFamily struct {
	family   byte
	protocol byte
	name     string
	// errors are the ranges of error types.
	errors [][2]byte
	// tooBig is the type and code of errors with a path MTU at offset mtuAt.
	tooBig []byte
	mtuAt  uint32
	// minMTU is the smallest accepted path MTU, in network byte order.
	minMTU []byte
	// redirect is the type of redirects; 0: other rules drop them.
	redirect byte
	// source and destination are the conntrack keys of a connection's addresses.
	source, destination uint32
	// quotedAt is the offset of the quoted destination.
	quotedAt, length uint32
	own, ends        *nftables.Set
}

var icmpFamilies = []icmpFamily{
	{
		family: unix.NFPROTO_IPV4, protocol: unix.IPPROTO_ICMP, name: "IPv4", errors: [][2]byte{{3, 5}, {11, 12}}, tooBig: []byte{3, 4}, redirect: 5,
		mtuAt: 6, minMTU: big16(576), source: unix.NFT_CT_SRC_IP, destination: unix.NFT_CT_DST_IP, own: own4, ends: ends4, quotedAt: 8 + 16, length: 4,
	},
	{
		family: unix.NFPROTO_IPV6, protocol: unix.IPPROTO_ICMPV6, name: "IPv6", errors: [][2]byte{{0, 127}}, tooBig: []byte{2},
		mtuAt: 4, minMTU: append([]byte{0, 0}, big16(1280)...), source: unix.NFT_CT_SRC_IP6, destination: unix.NFT_CT_DST_IP6, own: own6, ends: ends6, quotedAt: 8 + 24, length: 16,
	},
}

// directions of a connection: original and reply. The receiver of a packet is the source of the
// other direction.
var directions = []string{"answer", "request"}

func errorRules() (list []rule) {
	add := func(chain, what string, parts ...words) { list = append(list, rule{chain, what, join(parts...)}) }
	dropped := counted(dropped[vswitch.DropICMP])
	for _, f := range icmpFamilies {
		icmp := ofProtocol(f.protocol)
		tooBig := join(icmp, transport(0, uint32(len(f.tooBig)), scratch), equals(f.tooBig...))
		redirect := join(icmp, transport(0, 1, scratch), equals(f.redirect))
		for _, types := range f.errors {
			isError := join(icmp, transport(0, 1, scratch), between([]byte{types[0]}, []byte{types[1]}))
			for direction, packet := range directions {
				add(chainErrors, f.name+" about "+packet+" that the pod received", isError, onEthernet(), ofDirection(byte(direction)), fromDevice(), senderMAC(),
					tuple(f.source, direction, afterMAC), inSet(f.own), goTo(chainQuoted))
			}
			add(chainErrors, f.name+" of a pod about other packets", isError, fromDevice(), inSet(guarded), dropped)
		}
		add(chainErrors, f.name+" path MTU", tooBig, fromGroup(), goTo(chainPath))
		add(chainQuoted, f.name+" path MTU", tooBig, goTo(chainPathOfPod))
		for direction := range directions {
			add(chainLocal, f.name+" path MTU to the end of a tunnel", ofFamily(f.family), tooBig, fromGroup(), tuple(f.destination, direction, first), inSet(f.ends), dropped)
		}
		add(chainLocal, f.name+" path MTU to the end of a tunnel, by a network", ofFamily(f.family), tooBig, transport(f.quotedAt, f.length, first), inSet(f.ends), goTo(chainPathOfTunnel))
		if f.redirect != 0 {
			add(chainErrors, f.name+" redirect", redirect, fromGroup(), goTo(chainPath))
			add(chainQuoted, f.name+" redirect of a pod", redirect, dropped)
		}
	}
	add(chainPathOfTunnel, "of a TCP connection", inState(expr.CtStateBitRELATED), of(&expr.Ct{Key: expr.CtKeyPROTOCOL, Register: scratch}), equals(unix.IPPROTO_TCP), accept())
	add(chainPathOfTunnel, "of anything else", dropped)
	add(chainQuoted, "other errors", accept())
	add(chainPathOfPod, "translated", translated(), dropped)
	add(chainPathOfPod, "as received", goTo(chainPath))
	add(chainPath, "frame of a bridge", inState(expr.CtStateBitUNTRACKED), accept())
	add(chainPath, "of no connection", unrelated(), dropped)
	for _, f := range icmpFamilies {
		for direction := range directions {
			add(chainPath, f.name+" between ends of tunnels", ofFamily(f.family), tuple(f.source, direction, first), inSet(f.ends),
				tuple(f.destination, direction, first), inSet(f.ends), dropped)
		}
		add(chainPath, f.name+" too small", ofProtocol(f.protocol), transport(0, uint32(len(f.tooBig)), scratch), equals(f.tooBig...),
			transport(f.mtuAt, uint32(len(f.minMTU)), scratch), of(&expr.Cmp{Op: expr.CmpOpLt, Register: scratch, Data: f.minMTU}), dropped)
	}
	add(chainPath, "of a connection", accept())
	return list
}

func unrelated() words { return join(stateBit(expr.CtStateBitRELATED), equals(0, 0, 0, 0)) }

// ofDirection matches packets of a direction of a connection. An error has the opposite direction
// of its quoted packet.
func ofDirection(direction byte) words {
	return join(of(&expr.Ct{Key: expr.CtKeyDIRECTION, Register: scratch}), equals(direction))
}

func tuple(key uint32, direction int, register uint32) words {
	return words{nft.Tuple{Register: register, Key: key, Direction: byte(direction)}}
}

func between(first, last []byte) words {
	return of(&expr.Range{Op: expr.CmpOpEq, Register: scratch, FromData: first, ToData: last})
}
