package podguard

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The kernel does not translate packets that conntrack considers invalid, such as a segment outside
// the window, or the end of an unknown connection. A segment from an endpoint would reach the
// client with the endpoint's address, and the client would reset the connection. A reset from a pod
// would leave the cluster with the pod's address.
//
// All packets of a guarded pod pass its node. Other senders may pass the node in one direction
// only: pods that forward traffic, and hosts that the node routes for, are exempt. Conntrack does
// not see packets from SRv6 segments, so replies to them look invalid: they come from addresses
// that the node routes into segments.

func invalid() words { return inState(expr.CtStateBitINVALID) }

// inState matches packets in a state of connection tracking.
func inState(bit uint32) words { return join(stateBit(bit), differs(0, 0, 0, 0)) }

// stateBit loads one bit of the state of connection tracking into the scratch register.
func stateBit(bit uint32) words {
	return nft.Words(
		&expr.Ct{Key: expr.CtKeySTATE, Register: scratch},
		&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 4, Mask: native32(bit), Xor: make([]byte, 4)},
	)
}

// leadsTo loads the output device of the route to the destination or the source.
func leadsTo(source bool) words {
	return nft.Words(&expr.Fib{Register: first, FlagSADDR: source, FlagDADDR: !source, ResultOIFNAME: true})
}

// intoSegments matches packets with a destination, or source, that the node routes into or out of
// segments.
func intoSegments(source bool) words {
	device := make([]byte, unix.IFNAMSIZ)
	copy(device, own.SegmentsDevice)
	return join(leadsTo(source), nft.Words(&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: device}))
}

// segmentRules drop packets that the node would decapsulate. Pods send no such packets: nodes
// encapsulate for them.
func segmentRules() (list []rule) {
	const ethernetInside = 143
	drop := counted(dropped[vswitch.DropSegments])
	for _, inside := range []byte{unix.IPPROTO_IPV6, unix.IPPROTO_IPIP, ethernetInside} {
		list = append(list, rule{chainSent6, fmt.Sprintf("protocol %d, to a segment", inside), join(ofProtocol(inside), intoSegments(false), drop)})
	}
	header := nft.Words(&expr.Exthdr{DestRegister: scratch, Type: unix.IPPROTO_ROUTING, Len: 1, Flags: unix.NFT_EXTHDR_F_PRESENT})
	return append(list, rule{chainSent6, "routing header, to a segment", join(header, equals(1), intoSegments(false), drop)})
}

func invalidRules() []rule {
	drop := counted(dropped[vswitch.DropInvalid])
	return []rule{
		{chainOpening, "invalid", join(invalid(), goTo(chainInvalid))},
		{chainInvalid, "from inner packets of SRv6 segments", join(intoSegments(true), accept())},
		{chainInvalid, "from a pod", join(fromDevice(), inSet(guarded), drop)},
		{chainInvalid, "to a pod", join(leadsTo(false), inSet(guarded), drop)},
		// A reply from an endpoint to a process of the node: the kernel would reset the connection.
		{chainLocal, "invalid, to the node", join(ofProtocol(unix.IPPROTO_TCP), invalid(), fromGroup(), drop)},
	}
}
