package foreign

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// header holds the known bytes of a packet's header.
type header struct {
	bytes [40]byte
	known [40]bool
}

func (h *header) put(offset int, data []byte) {
	for i, b := range data {
		h.bytes[offset+i], h.known[offset+i] = b, true
	}
}

// part returns some bytes, or nil if any of them is unknown.
func (h *header) part(offset, length uint32) []byte {
	if length == 0 || offset+length > uint32(len(h.bytes)) {
		return nil
	}
	for i := offset; i < offset+length; i++ {
		if !h.known[i] {
			return nil
		}
	}
	return h.bytes[offset : offset+length]
}

type loaded struct {
	link, network, transport         header
	in, out, protocol, family, state []byte
	direction                        []byte
}

// TCP flags
const syn, ack = 0x02, 0x10

func load(p Packet) *loaded {
	l := &loaded{in: paddedName(p.In), out: paddedName(p.Out), direction: []byte{0}}
	state := uint32(expr.CtStateBitNEW)
	switch {
	case p.Untracked:
		state = expr.CtStateBitUNTRACKED
	case p.established():
		state = expr.CtStateBitESTABLISHED
	}
	if p.Answer {
		l.direction = []byte{1}
	}
	l.state = binary.NativeEndian.AppendUint32(nil, state)
	const etherType = 12
	l.link.put(etherType, etherTypeOf(p))
	src, dst, protocol := 12, 16, 9
	l.family = []byte{unix.NFPROTO_IPV4}
	if p.Src.Is6() {
		src, dst, protocol = 8, 24, 6
		l.family = []byte{unix.NFPROTO_IPV6}
	}
	for at, addr := range map[int]netip.Addr{src: p.Src, dst: p.Dst} {
		if addr.IsValid() {
			l.network.put(at, addr.AsSlice())
		}
	}
	if p.Protocol == 0 {
		return l
	}
	l.protocol = []byte{p.Protocol}
	l.network.put(protocol, l.protocol)
	for at, port := range map[int]uint16{0: p.SrcPort, 2: p.DstPort} {
		if port != 0 {
			l.transport.put(at, binary.BigEndian.AppendUint16(nil, port))
		}
	}
	l.transport.putKind(p)
	return l
}

// putKind sets the header fields that differ between the first packet, the answer and later
// packets.
func (h *header) putKind(p Packet) {
	const tcpFlags = 13
	switch {
	case p.Protocol == unix.IPPROTO_TCP:
		h.put(tcpFlags, []byte{p.tcpFlags()})
	case p.Protocol == unix.IPPROTO_ICMP && p.Answer:
		h.put(0, []byte{0, 0}) // echo reply
	case p.Protocol == unix.IPPROTO_ICMP:
		h.put(0, []byte{8, 0})
	case p.Protocol == unix.IPPROTO_ICMPV6 && p.Answer:
		h.put(0, []byte{129, 0})
	case p.Protocol == unix.IPPROTO_ICMPV6:
		h.put(0, []byte{128, 0})
	}
}

func (p Packet) tcpFlags() byte {
	switch {
	case p.Later:
		return ack
	case p.Answer:
		return syn | ack
	}
	return syn
}

// paddedName returns a device name as a register value.
func paddedName(device string) []byte {
	if device == "" {
		return nil
	}
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, device)
	return padded
}

// etherTypeOf returns the EtherType in network byte order.
func etherTypeOf(p Packet) []byte {
	if p.Src.Is6() {
		return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IPV6)
	}
	return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP)
}

func (l *loaded) payload(e *expr.Payload) []byte {
	if e.OperationType != expr.PayloadLoad {
		return nil
	}
	switch e.Base {
	case expr.PayloadBaseLLHeader:
		return l.link.part(e.Offset, e.Len)
	case expr.PayloadBaseNetworkHeader:
		return l.network.part(e.Offset, e.Len)
	case expr.PayloadBaseTransportHeader:
		return l.transport.part(e.Offset, e.Len)
	}
	return nil
}

// Address types of linux/rtnetlink.h.
var (
	unicast   = addressType(unix.RTN_UNICAST)
	local     = addressType(unix.RTN_LOCAL)
	multicast = addressType(unix.RTN_MULTICAST)
)

type addressType uint32

// typeOf returns the type of an address. Routes to nowhere are reported elsewhere, so all other
// addresses are unicast.
func (r *Ruleset) typeOf(addr netip.Addr) addressType {
	switch {
	case addr.IsMulticast():
		return multicast
	case addr.IsLoopback(), r.local[addr]:
		return local
	}
	return unicast
}
