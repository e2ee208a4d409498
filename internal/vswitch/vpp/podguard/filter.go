package podguard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
)

// chain is a sequence of tables for frames of an EtherType. The first matching entry decides.
type chain int

const (
	chainIP4 chain = iota
	chainIP6
	chainOther
	chains
)

// span is a part of a frame, counted from its first byte.
type span struct {
	at, n int
	// bits compared in each byte; 0: all.
	bits byte
}

// Parts of frames. Fixed offsets suffice: VPP recognises neither a port behind IPv4 options nor
// neighbour discovery behind IPv6 extension headers.
var (
	sourceMAC = span{at: 6, n: 6}
	etherType = span{at: 12, n: 2}

	protocol4    = span{at: 23, n: 1}
	source4      = span{at: 26, n: 4}
	destination4 = span{at: 30, n: 4}
	port4        = span{at: 36, n: 2} // of the destination, behind a header without options
	flow4        = span{at: 26, n: 12}

	arpFormat = span{at: 14, n: 6}
	arpSender = span{at: 22, n: 10}

	length6      = span{at: 18, n: 2} // without the header itself
	next6        = span{at: 20, n: 1}
	source6      = span{at: 22, n: 16}
	destination6 = span{at: 38, n: 16}
	flow6        = span{at: 22, n: 36}

	port6     = span{at: 56, n: 2}
	tcpFlags4 = span{at: 47, n: 1, bits: synOrAck}
	tcpFlags6 = span{at: 67, n: 1, bits: synOrAck}

	icmpType = span{at: 54, n: 1}
	target   = span{at: 62, n: 16} // of neighbour discovery
	// Options, where they are the first one: kind, length, MAC address.
	optionOfTarget = span{at: 78, n: 8}
	optionOfRouter = span{at: 62, n: 8}

	fragmented    = span{at: 54, n: 1} // next header of a fragment
	fragmentPlace = span{at: 56, n: 1} // zero for offsets in the first 256 bytes
	fragmentType  = span{at: 62, n: 1} // ICMP type in the first fragment
)

const vector = 16

// table is a classifier table: a mask, and entries for the masked frame.
type table struct {
	chain   chain
	spans   []span
	entries []entry
	room    int // reserve for entries added later
	// policed tables lead to policers, see policed.go.
	policed bool
}

// entry matches frames that have the values at the spans of the table.
type entry struct {
	match   []byte // the frame from its first byte, masked
	verdict verdict
}

type verdict uint8

const (
	pass   verdict = iota // on to the node of the chain
	ignore                // dropped without a count, because nothing would receive it
	dropMAC
	dropIPv4
	dropIPv6
	dropARP
	dropND
	dropVXLAN
	silenced
	restricted
	dropICMP
	dropSegments
	dropUplink
	dropVXLANInterface
	dropVXLANTranslated
)

var reasons = map[verdict]vswitch.DropReason{
	dropMAC: vswitch.DropMAC, dropIPv4: vswitch.DropIPv4, dropIPv6: vswitch.DropIPv6,
	dropARP: vswitch.DropARP, dropND: vswitch.DropND, dropVXLAN: vswitch.DropVXLAN, restricted: vswitch.DropRanges,
	dropICMP: vswitch.DropICMP, dropSegments: vswitch.DropSegments, dropUplink: vswitch.DropUplink,
	dropVXLANInterface: vswitch.DropVXLANInterface, dropVXLANTranslated: vswitch.DropVXLANTranslated,
}

func (t *table) end() int {
	end := 0
	for _, s := range t.spans {
		end = max(end, s.at+s.n)
	}
	return end
}

// skip returns the number of leading vectors that the table ignores.
func (t *table) skip() int {
	first := t.end()
	for _, s := range t.spans {
		first = min(first, s.at)
	}
	return first / vector
}

// mask returns the mask, from the first vector that is not skipped.
func (t *table) mask() []byte {
	frame := make([]byte, (t.end()+vector-1)/vector*vector)
	for _, s := range t.spans {
		for i := range s.n {
			frame[s.at+i] = cmp.Or(s.bits, 0xff)
		}
	}
	return frame[t.skip()*vector:]
}

// add adds an entry with the values of the spans, in order, unless it exists.
func (t *table) add(v verdict, values ...[]byte) {
	t.addNew(v, values...)
	last := len(t.entries) - 1
	if slices.ContainsFunc(t.entries[:last], func(o entry) bool { return bytes.Equal(o.match, t.entries[last].match) }) {
		t.entries = t.entries[:last]
	}
}

func (t *table) addNew(v verdict, values ...[]byte) {
	frame := make([]byte, (t.end()+vector-1)/vector*vector)
	for i, s := range t.spans {
		copy(frame[s.at:s.at+s.n], values[i])
	}
	t.entries = append(t.entries, entry{frame, v})
}

func one(b byte) []byte      { return []byte{b} }
func two(n uint16) []byte    { return binary.BigEndian.AppendUint16(nil, n) }
func ip(a netip.Addr) []byte { return a.AsSlice() }

const (
	protocolTCP  = 6
	protocolUDP  = 17
	protocolSCTP = 132
	hopByHop     = 0
	fragment     = 44
	icmp6        = 58
	portVXLAN    = 4789
	etherTypeIP4 = 0x0800
	etherTypeARP = 0x0806
	etherTypeIP6 = 0x86dd
)

const (
	syn      = 0x02
	synOrAck = 0x12
)

const (
	routerSolicitation    = 133
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	redirect              = 137

	optionSourceLink = 1
	optionTargetLink = 2
)

// Indexes of the tables that depend on the node's tunnels and segments.
const (
	peerTable    = 0
	segmentTable = 2
)

// ends are the addresses at which VPP, or another node, would decapsulate packets of a pod.
type ends struct {
	peers    []netip.Addr // remote ends of IPv4 VXLAN tunnels
	segments []netip.Addr // local SIDs
}

// tables returns the tables that depend on the ends, by index.
func (e ends) tables() map[int]*table {
	return map[int]*table{peerTable: peersTable(e.peers), segmentTable: segmentsTable(e.segments)}
}

// peersTable matches VXLAN to the remote ends of tunnels. Without tunnels, an entry that matches
// nothing marks the table as ours.
func peersTable(peers []netip.Addr) *table {
	t := &table{chain: chainIP4, spans: []span{protocol4, destination4, port4}, room: 4096}
	for _, p := range append([]netip.Addr{netip.AddrFrom4([4]byte{255, 255, 255, 255})}, peers...) {
		t.add(dropVXLAN, one(protocolUDP), ip(p), two(portVXLAN))
	}
	return t
}

// segmentsTable matches packets to local SIDs. Nodes encapsulate for pods, so pods send none. VPP
// takes TCP and UDP from no segment, so these skip the table. Without SIDs, an entry marks the
// table as ours.
func segmentsTable(sids []netip.Addr) *table {
	t := &table{chain: chainIP6, spans: []span{destination6}, room: 1024}
	for _, sid := range append([]netip.Addr{netip.IPv6Unspecified()}, sids...) {
		t.add(dropSegments, ip(sid))
	}
	return t
}

// filter returns the classifier tables that permit frames with the source MAC and IP addresses,
// chain by chain in the order of evaluation. Frames that match no entry are dropped.
func filter(mac net.HardwareAddr, addrs []netip.Addr, e ends) []*table {
	list := []*table{peersTable(e.peers)}
	in := func(c chain, spans ...span) *table {
		t := &table{chain: c, spans: spans}
		list = append(list, t)
		return t
	}
	var own4, own6 []netip.Addr
	for _, a := range addrs {
		if a.Is4() {
			own4 = append(own4, a)
		} else {
			own6 = append(own6, a)
		}
	}

	// Most packets need few tables: the protocols that carry them have one of their own.
	transports := in(chainIP6, sourceMAC, next6, source6)
	list = append(list, segmentsTable(e.segments))
	transports4 := in(chainIP4, sourceMAC, protocol4, source4)
	for _, a := range own4 {
		transports4.add(pass, mac, one(protocolTCP), ip(a))
		transports4.add(pass, mac, one(protocolUDP), ip(a))
	}
	list = append(list, errorTables4(mac, own4)...)
	sources4 := in(chainIP4, sourceMAC, source4)
	for _, a := range own4 {
		sources4.add(pass, mac, ip(a))
	}
	in(chainIP4, sourceMAC).add(dropIPv4, mac)
	in(chainIP4, etherType).add(dropMAC, two(etherTypeIP4))

	senders := in(chainOther, sourceMAC, etherType, arpFormat, arpSender)
	for _, a := range own4 {
		senders.add(pass, mac, two(etherTypeARP), []byte{0, 1, 8, 0, 6, 4}, slices.Concat(mac, ip(a)))
	}
	in(chainOther, etherType).add(dropARP, two(etherTypeARP))

	list = append(list, errorTables6(mac, own6)...)
	fragments := in(chainIP6, next6, fragmented, fragmentPlace, fragmentType)
	plain := in(chainIP6, sourceMAC, length6, next6, source6, icmpType)
	linked := in(chainIP6, length6, next6, source6, icmpType, optionOfTarget)
	routers := in(chainIP6, sourceMAC, length6, next6, source6, icmpType, optionOfRouter)
	claims := in(chainIP6, sourceMAC, length6, next6, source6, icmpType, target)
	linkedClaims := in(chainIP6, length6, next6, source6, icmpType, target, optionOfTarget)
	duplicates := in(chainIP6, sourceMAC, next6, source6, icmpType, target)
	discovery := in(chainIP6, sourceMAC, next6, source6, icmpType)
	sources6 := in(chainIP6, sourceMAC, source6)
	in(chainIP6, sourceMAC).add(dropIPv6, mac)
	in(chainIP6, etherType).add(dropMAC, two(etherTypeIP6))

	unspecified := ip(netip.IPv6Unspecified())
	option := func(kind byte) []byte { return append([]byte{kind, 1}, mac...) }
	for _, a := range own6 {
		own := ip(a)
		transports.add(pass, mac, one(protocolTCP), own)
		transports.add(pass, mac, one(protocolUDP), own)
		plain.add(pass, mac, two(8), one(icmp6), own, one(routerSolicitation))
		plain.add(pass, mac, two(24), one(icmp6), own, one(neighborSolicitation))
		linked.add(pass, two(32), one(icmp6), own, one(neighborSolicitation), option(optionSourceLink))
		routers.add(pass, mac, two(16), one(icmp6), own, one(routerSolicitation), option(optionSourceLink))
		for _, b := range own6 {
			claims.add(pass, mac, two(24), one(icmp6), own, one(neighborAdvertisement), ip(b))
			linkedClaims.add(pass, two(32), one(icmp6), own, one(neighborAdvertisement), ip(b), option(optionTargetLink))
		}
		// Duplicate address detection has no source address.
		duplicates.add(pass, mac, one(icmp6), unspecified, one(neighborSolicitation), own)
		for kind := byte(routerSolicitation); kind <= redirect; kind++ {
			discovery.add(dropND, mac, one(icmp6), own, one(kind))
		}
		sources6.add(pass, mac, own)
	}
	// Multicast group reports may have no source address either. VPP does not track membership.
	transports.add(ignore, mac, one(hopByHop), unspecified)
	// Neighbour discovery must not be fragmented (RFC 6980); VPP would reassemble it.
	for kind := byte(routerSolicitation); kind <= redirect; kind++ {
		fragments.add(dropND, one(fragment), one(icmp6), one(0), one(kind))
	}
	return list
}

func mark(i ownership.Index, v verdict) uint32 { return markOwn | uint32(i)&markIndex<<4 | uint32(v) }

const (
	markOwn   = 0x4 << 28
	markIndex = 1<<24 - 1
)

func marked(m uint32) (i ownership.Index, v verdict, ours bool) {
	return ownership.Index(m >> 4 & markIndex), verdict(m & 15), m>>28 == markOwn>>28
}
