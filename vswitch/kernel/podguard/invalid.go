package podguard

import (
	"fmt"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The kernel translates no packet that it takes for invalid: one outside of the window, or one that ends a connection that it does not
// know. A segment from an endpoint would come to the client with the address of the endpoint, and the client would reset the connection. A
// reset from a pod would leave the cluster with the address of the pod.
//
// All packets of a pod with a guard pass its node. Elsewhere, a node may see one direction of a connection only: pods that forward for
// others, and hosts that the node routes for, are left alone. Conntrack does not see what comes out of segments (SRv6), so that answers to it
// look invalid: they are sent from addresses that the node leads into segments.

// invalid matches packets that conntrack takes for invalid. Those that it does not track are valid.
func invalid() words {
	return join(nft.Words(
		&expr.Ct{Key: expr.CtKeySTATE, Register: scratch},
		&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 4, Mask: native32(expr.CtStateBitINVALID), Xor: make([]byte, 4)},
	), differs(0, 0, 0, 0))
}

// leadsTo loads the device that packets for an address are sent to: the destination, or the source.
func leadsTo(source bool) words {
	return nft.Words(&expr.Fib{Register: first, FlagSADDR: source, FlagDADDR: !source, ResultOIFNAME: true})
}

// intoSegments matches packets whose destination, or source, the node leads into segments, or out of them.
func intoSegments(source bool) words {
	device := make([]byte, unix.IFNAMSIZ)
	copy(device, own.SegmentsDevice)
	return join(leadsTo(source), nft.Words(&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: device}))
}

// segmentRules drop packets that the node would take out of a segment. Pods send none: nodes put packets of pods into segments.
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
		{chainInvalid, "from what segments carry", join(intoSegments(true), accept())},
		{chainInvalid, "from a pod", join(fromDevice(), inSet(guarded), drop)},
		{chainInvalid, "to a pod", join(leadsTo(false), inSet(guarded), drop)},
		// An answer to a process of the node, from an endpoint: the kernel would reset the connection.
		{chainLocal, "invalid, to the node", join(ofProtocol(unix.IPPROTO_TCP), invalid(), fromGroup(), drop)},
	}
}
